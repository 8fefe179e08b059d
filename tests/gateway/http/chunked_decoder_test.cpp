#include "gateway/http/chunked_decoder.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "gateway/http/limits.hpp"
#include "tests/gateway/http/wire_cases.hpp"

namespace weir::gateway::http {
namespace {

struct verdict {
  int status;
  std::string body;
  std::string reason;
  std::size_t consumed;
  friend bool operator==(const verdict&, const verdict&) = default;
};

// Shows `bytes` cut at the given ascending offsets; what was not consumed is shown again with what follows.
verdict deliver(const std::string& bytes, const std::vector<std::size_t>& cuts) {
  chunked_decoder decoder(testing::k_chunked_case_body_max);
  verdict out{0, {}, {}, 0};
  for (std::size_t cut : cuts) {
    while (true) {
      const chunk_step step =
          decoder.decode(std::string_view(bytes).substr(out.consumed, cut - out.consumed));
      out.consumed += step.consumed;
      out.body += step.data;
      if (step.what == chunk_step::kind::need_more) break;
      if (step.what == chunk_step::kind::data) continue;
      out.status = step.what == chunk_step::kind::done ? 200 : decoder.rejected().status;
      if (out.status != 200) out.reason = decoder.rejected().reason;
      return out;
    }
  }
  return out;
}

std::vector<std::size_t> every_byte(std::size_t size) {
  std::vector<std::size_t> cuts;
  for (std::size_t i = 1; i <= size; ++i) cuts.push_back(i);
  return cuts;
}

TEST_CASE("every row of the chunked profile has one verdict, however it is cut") {
  for (const auto& c : testing::chunked_cases()) {
    INFO(c.name);
    const verdict whole = deliver(c.bytes, {c.bytes.size()});
    CHECK(whole.status == c.status);
    if (c.status == 200 || c.status == 0) CHECK(whole.body == c.body);
    if (c.status == 200) CHECK(c.bytes.substr(whole.consumed) == c.rest);
    if (c.status == 0) CHECK(whole.consumed == c.bytes.size());
    CHECK(deliver(c.bytes, every_byte(c.bytes.size())) == whole);
    const std::size_t stride = c.bytes.size() > 4096 ? 509 : 1;
    for (std::size_t cut = 0; cut < c.bytes.size(); cut += stride) {
      if (deliver(c.bytes, {cut, c.bytes.size()}) != whole) FAIL("cut at " << cut);
    }
  }
}

TEST_CASE("a verdict is final") {
  chunked_decoder decoder(10);
  CHECK(decoder.decode("zz").what == chunk_step::kind::reject);
  CHECK(decoder.decode("0\r\n\r\n").what == chunk_step::kind::reject);
  chunked_decoder complete(10);
  CHECK(complete.decode("0\r\n\r\n").what == chunk_step::kind::done);
  const chunk_step again = complete.decode("1\r\n");
  CHECK(again.what == chunk_step::kind::done);
  CHECK(again.consumed == 0);
}

}  // namespace
}  // namespace weir::gateway::http
