#include "loadtest/bench/scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

namespace weir::loadtest::bench {

namespace {

constexpr std::size_t k_tail_bytes = 200;
constexpr std::size_t k_small = 2'048;

constexpr scenario k_scenarios[] = {
    {"json-c1", 1, k_small, variation::none, false, false, "2 KB body, one connection"},
    {"json-c32-constant", 32, k_small, variation::none, false, false, "2 KB body, the same"},
    {"json-c32-tail", 32, k_small, variation::tail, false, false, "2 KB body, the last 200 bytes differ"},
    {"json-c32-unique", 32, k_small, variation::all, false, false, "2 KB body, all differs"},
    {"json-c512-tail", 512, k_small, variation::tail, false, false, "2 KB body, the last 200 bytes differ"},
    {"json-c512-unique", 512, k_small, variation::all, false, false, "2 KB body, all differs"},
    {"stream64-c1", 1, k_small, variation::none, true, false,
     "64 events as fast as they come, one connection"},
    {"stream64-c32", 32, k_small, variation::none, true, false, "64 events as fast as they come"},
    {"paced-500", 500, k_small, variation::none, true, true, "500 streams; times are gaps between events"},
    {"body-220k", 4, 220 << 10, variation::none, false, false, "220 KB body"},
    {"body-4m", 4, 4 << 20, variation::none, false, false, "4 MB body"},
};

}  // namespace

std::span<const scenario> scenario_table() {
  return k_scenarios;
}

const scenario* find_scenario(std::string_view name) {
  const auto* found = std::ranges::find(k_scenarios, name, &scenario::name);
  return found == std::end(k_scenarios) ? nullptr : found;
}

request_source::request_source(const scenario& of, std::string_view host, std::string_view model,
                               std::string_view api_key, std::uint64_t seed)
    : state_(seed * 2 + 1) {
  const auto stream = of.stream ? fmt::format(R"("stream":true,"max_tokens":{},)", k_stream_tokens) : "";
  const auto start =
      fmt::format(R"({{"model":"{}",{}"messages":[{{"role":"user","content":")", model, stream);
  constexpr std::string_view k_end = R"("}]})";
  assert(of.body_bytes > start.size() + k_end.size() + k_tail_bytes);
  const auto prompt_bytes = of.body_bytes - start.size() - k_end.size();
  bytes_ = fmt::format(
      "POST /v1/chat/completions HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n{}content-length: "
      "{}\r\n\r\n",
      host, api_key.empty() ? "" : fmt::format("authorization: Bearer {}\r\n", api_key), of.body_bytes);
  bytes_ += start;
  for (std::size_t i = 0; i < prompt_bytes; ++i) bytes_ += static_cast<char>(i % 7 == 6 ? ' ' : 'a' + i % 26);
  varied_size_ = of.differs == variation::none   ? 0
                 : of.differs == variation::tail ? k_tail_bytes
                                                 : prompt_bytes;
  varied_start_ = bytes_.size() - varied_size_;
  bytes_ += k_end;
}

void request_source::vary() {
  constexpr std::string_view k_letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .";
  constexpr int k_letter_bits = 6;
  static_assert(k_letters.size() == 1U << k_letter_bits);
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < varied_size_; ++i) {
    if (i % 10 == 0) {  // xorshift64: ten letters a step
      state_ ^= state_ << 13;
      state_ ^= state_ >> 7;
      state_ ^= state_ << 17;
      bits = state_;
    }
    bytes_[varied_start_ + i] = k_letters[bits & (k_letters.size() - 1)];
    bits >>= k_letter_bits;
  }
}

}  // namespace weir::loadtest::bench
