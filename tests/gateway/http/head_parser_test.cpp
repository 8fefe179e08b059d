#include "gateway/http/head_parser.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "gateway/http/limits.hpp"
#include "tests/gateway/http/wire_cases.hpp"

namespace weir::gateway::http {
namespace {

using namespace std::string_view_literals;

struct verdict {
  int status;  // 200 accepted, 0 incomplete
  std::string reason;
  friend bool operator==(const verdict&, const verdict&) = default;
};

verdict verdict_of(const head_parser& parser, parse_state state) {
  if (state == parse_state::ok) return {200, {}};
  if (state == parse_state::need_more) return {0, {}};
  return {parser.rejected().status, std::string(parser.rejected().reason)};
}

// Shows `bytes` cut at the given offsets, each time in memory of exactly the shown size, as a growing buffer
// would move.
verdict deliver(const std::string& bytes, const std::vector<std::size_t>& cuts) {
  head_parser parser;
  parse_state state = parse_state::need_more;
  for (std::size_t cut : cuts) {
    const std::vector<char> shown(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(cut));
    state = parser.parse({shown.data(), shown.size()});
    if (state != parse_state::need_more) break;
  }
  return verdict_of(parser, state);
}

verdict deliver_bytewise(const std::string& bytes) {
  head_parser parser;
  parse_state state = parse_state::need_more;
  for (std::size_t i = 1; i <= bytes.size() && state == parse_state::need_more; ++i) {
    state = parser.parse(std::string_view(bytes).substr(0, i));
  }
  return verdict_of(parser, state);
}

TEST_CASE("every row of the profile has one verdict, however it is cut") {
  for (const auto& c : testing::all_head_cases()) {
    INFO(c.name);
    const verdict whole = deliver(c.bytes, {c.bytes.size()});
    CHECK(whole.status == c.status);
    CHECK(whole.reason.empty() == (c.status == 200 || c.status == 0));
    CHECK(deliver_bytewise(c.bytes) == whole);
    // Every offset; the few heads of many kilobytes are cut at a stride, plus every offset near their end.
    const std::size_t stride = c.bytes.size() > 4096 ? 509 : 1;
    for (std::size_t cut = 0; cut < c.bytes.size(); cut += stride) {
      const verdict split = deliver(c.bytes, {cut, c.bytes.size()});
      if (split != whole) FAIL("cut at " << cut << ": " << split.status << ' ' << split.reason);
    }
    for (std::size_t back = 1; back < std::min<std::size_t>(c.bytes.size(), 64); ++back) {
      const verdict split = deliver(c.bytes, {c.bytes.size() - back, c.bytes.size()});
      if (split != whole) FAIL("cut " << back << " before the end");
    }
  }
}

TEST_CASE("an accepted head yields its parts") {
  const std::string bytes =
      "\r\nPOST /v1/chat?a=b?c HTTP/1.1\r\nHost: a\r\nContent-Length: 010\r\nX-Empty:\r\nX:\t v w \t\r\n"
      "Expect: 100-continue\r\nConnection: close\r\n\r\nBODY";
  head_parser parser;
  REQUIRE(parser.parse(bytes) == parse_state::ok);
  CHECK(parser.head_bytes() == bytes.size() - 4);
  CHECK(parser.method() == request_method::post);
  CHECK(parser.path(bytes) == "/v1/chat");
  CHECK(parser.query(bytes) == "a=b?c");
  CHECK_FALSE(parser.http_1_0());
  CHECK(parser.framing() == body_framing::content_length);
  CHECK(parser.content_length() == 10);
  CHECK(parser.expect_continue());
  CHECK_FALSE(parser.keep_alive());
  REQUIRE(parser.field_count() == 6);
  CHECK(parser.field(2, bytes).value.empty());
  CHECK(parser.field(3, bytes).name == "X");
  CHECK(parser.field(3, bytes).value == "v w");
}

TEST_CASE("keep-alive follows version and Connection") {
  struct row {
    std::string version, fields;
    bool keep_alive;
  };
  const std::vector<row> rows{
      {"1.1", "", true},
      {"1.1", "Connection: close\r\n", false},
      {"1.1", "Connection: foo, CLOSE\r\n", false},
      {"1.1", "Connection: keep-alive\r\n", true},
      {"1.1", "Connection: ,, keep-alive\r\nConnection: close\r\n", false},
      {"1.0", "", false},
      {"1.0", "Connection: Keep-Alive\r\n", true},
      {"1.0", "Connection: keep-alive, close\r\n", false},
  };
  for (const auto& r : rows) {
    INFO(r.version << ' ' << r.fields);
    head_parser parser;
    REQUIRE(parser.parse("GET / HTTP/" + r.version + "\r\nHost: a\r\n" + r.fields + "\r\n") ==
            parse_state::ok);
    CHECK(parser.keep_alive() == r.keep_alive);
  }
}

TEST_CASE("an HTTP/1.0 client is never asked to continue") {
  head_parser parser;
  const std::string bytes = "POST / HTTP/1.0\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n";
  REQUIRE(parser.parse(bytes) == parse_state::ok);
  CHECK_FALSE(parser.expect_continue());
}

TEST_CASE("a parser serves one head after another") {
  head_parser parser;
  const std::string first = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n";
  REQUIRE(parser.parse(first) == parse_state::ok);
  CHECK(parser.framing() == body_framing::chunked);
  parser.reset();
  const std::string second = "GET /b HTTP/1.1\r\nHost: b\r\n\r\n";
  REQUIRE(parser.parse(second) == parse_state::ok);
  CHECK(parser.framing() == body_framing::none);
  CHECK(parser.field_count() == 1);
  CHECK(parser.query(second).empty());
}

TEST_CASE("a million mutated heads bring no fault and one verdict each") {
  constexpr unsigned k_seed = 20261129;
  constexpr int k_heads = 1'000'000;
  std::printf("seed %u\n", k_seed);
  std::minstd_rand engine(k_seed);
  const auto random = [&engine] { return static_cast<unsigned>(engine() >> 3); };
  std::vector<std::string> seeds;
  for (const auto& c : testing::all_head_cases()) {
    if (c.bytes.size() > 8 && c.bytes.size() < 400) seeds.push_back(c.bytes);
  }
  constexpr std::string_view k_alphabet = "\r\n\0 \t:;,\"\\%#?/AaGEhostchunked019-_\x7f\x80\xa0"sv;
  int accepted = 0;
  for (int i = 0; i < k_heads; ++i) {
    std::string head = seeds[random() % seeds.size()];
    for (unsigned edits = 1 + random() % 3; edits > 0; --edits) {
      const std::size_t at = random() % head.size();
      const char c = k_alphabet[random() % k_alphabet.size()];
      const unsigned kind = random() % 3;
      if (kind == 0) head[at] = c;
      if (kind == 1) head.insert(at, 1, c);
      if (kind == 2 && head.size() > 2) head.erase(at, 1 + random() % 2);
    }
    head_parser whole;
    const parse_state state = whole.parse(head);
    head_parser split;
    const std::size_t cut = random() % (head.size() + 1);
    parse_state again = split.parse(std::string_view(head).substr(0, cut));
    if (again == parse_state::need_more) again = split.parse(head);
    if (again != state || verdict_of(whole, state) != verdict_of(split, again)) FAIL(head);
    if (state == parse_state::ok) ++accepted;
  }
  CHECK(accepted > k_heads / 100);
  CHECK(accepted < k_heads / 2);
}

}  // namespace
}  // namespace weir::gateway::http
