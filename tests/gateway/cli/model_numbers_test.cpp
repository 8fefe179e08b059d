#include <catch2/catch.hpp>
#include <string>

#include "gateway/cli/model_commands.hpp"

namespace weir::gateway::cli {
namespace {

TEST_CASE("sizes are read with their unit, and nonsense is refused with the range") {
  struct row {
    const char* text;
    const char* bytes;  // null: refused
  };
  constexpr row k_rows[] = {
      {"65536", "65536"},      {"4GiB", "4294967296"},  {"4 GiB", "4294967296"}, {"1.5GiB", "1610612736"},
      {"80GB", "80000000000"}, {"100kb", "100000"},     {"64k", "64000"},        {"64Ki", "65536"},
      {"1.9B", nullptr},       {"-5GB", nullptr},       {"", nullptr},           {"GB", nullptr},
      {"5XB", nullptr},        {"1.2.3GB", nullptr},    {"nan", nullptr},        {"inf", nullptr},
      {"1e9", nullptr},        {"99999999TB", nullptr}, {"4GiBB", nullptr},      {"9", nullptr}};
  for (const auto& r : k_rows) {
    INFO("'" << r.text << "'");
    std::string text = r.text;
    const std::string fault = byte_size(10, std::int64_t{1} << 40)(text);
    CHECK(fault.empty() == (r.bytes != nullptr));
    if (r.bytes != nullptr) {
      CHECK(text == r.bytes);
    } else {
      CHECK(fault.find("from 10 bytes to 1099.51 GB") != std::string::npos);
    }
  }
}

TEST_CASE("a number in a range is one that is finite") {
  for (const std::string text : {"0", "1", "0.5", "1e-3"}) CHECK(finite_range(0, 1)(text).empty());
  for (const std::string text : {"nan", "inf", "-1", "1.01", "", "x", "0.5x"}) {
    INFO("'" << text << "'");
    CHECK_FALSE(finite_range(0, 1)(text).empty());
  }
}

TEST_CASE("amounts are told in the unit that suits them") {
  CHECK(amount_text(48'123'000'000) == "48.12 billion");
  CHECK(amount_text(36'200'000) == "36.20 million");
  CHECK(bytes_text(3'204'000'000) == "3.204 GB");
  CHECK(bytes_text(412'300) == "412.30 kB");
  CHECK(bytes_text(12) == "12 bytes");
  CHECK(bytes_text(0) == "0 bytes");
}

}  // namespace
}  // namespace weir::gateway::cli
