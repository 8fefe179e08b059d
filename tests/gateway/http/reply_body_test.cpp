#include "gateway/http/reply_body.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace weir::gateway::http {
namespace {

using kind = chunk_step::kind;

struct outcome {
  kind last = kind::need_more;
  std::string body;
  std::size_t taken = 0;
  bool ends_at_eof = false;
  friend bool operator==(const outcome&, const outcome&) = default;
};

struct body_case {
  const char* name;
  reply_framing framing;
  std::uint64_t content_length;
  std::string bytes;
  kind last;
  std::string body;
  std::string rest;
  bool ends_at_eof;
};

outcome deliver(const body_case& c, const std::vector<std::size_t>& cuts) {
  reply_body body(c.framing, c.content_length);
  outcome out;
  for (const std::size_t cut : cuts) {
    do {
      const chunk_step step = body.decode(std::string_view(c.bytes).substr(out.taken, cut - out.taken));
      out.last = step.what;
      out.taken += step.consumed;
      out.body += step.data;
    } while (out.last == kind::data);
    if (out.last != kind::need_more) break;
  }
  out.ends_at_eof = body.ends_at_eof();
  return out;
}

TEST_CASE("a body ends where its framing says, however it is cut") {
  using enum reply_framing;
  const body_case cases[] = {
      {"none", none, 0, "HTTP/1.1", kind::done, "", "HTTP/1.1", true},
      {"none, with a length", none, 5, "hello", kind::done, "", "hello", true},
      {"sized", content_length, 5, "hello", kind::done, "hello", "", true},
      {"sized, empty", content_length, 0, "x", kind::done, "", "x", true},
      {"sized, bytes behind", content_length, 5, "hello, you", kind::done, "hello", ", you", true},
      {"sized, cut", content_length, 6, "hello", kind::need_more, "hello", "", false},
      {"sized, nothing came", content_length, 1, "", kind::need_more, "", "", false},
      {"sized, of any size", content_length, 9223372036854775807, "hello", kind::need_more, "hello", "",
       false},
      {"chunked", chunked, 0, "5\r\nhello\r\n0\r\n\r\n", kind::done, "hello", "", true},
      {"chunked, empty", chunked, 0, "0\r\n\r\n", kind::done, "", "", true},
      {"chunked, trailers", chunked, 0, "1;a=b\r\nx\r\n2\r\nyz\r\n0\r\nx: y\r\n\r\n", kind::done, "xyz", "",
       true},
      {"chunked, bytes behind", chunked, 0, "1\r\nx\r\n0\r\n\r\n\r\n", kind::done, "x", "\r\n", true},
      {"chunked, no last chunk", chunked, 0, "5\r\nhello\r\n", kind::need_more, "hello", "", false},
      {"chunked, no last line", chunked, 0, "5\r\nhello\r\n0\r\n", kind::need_more, "hello", "", false},
      {"chunked, cut in data", chunked, 0, "5\r\nhel", kind::need_more, "hel", "", false},
      {"chunked, bad size", chunked, 0, "1\r\nx\r\nz\r\n", kind::reject, "x", "z\r\n", false},
      {"chunked, data too long", chunked, 0, "1\r\nxy\r\n", kind::reject, "x", "y\r\n", false},
      {"chunked, 2^63 bytes", chunked, 0, "8000000000000000\r\n", kind::reject, "", "\n", false},
      {"to the close", to_close, 0, "hello", kind::need_more, "hello", "", true},
      {"to the close, empty", to_close, 0, "", kind::need_more, "", "", true},
      {"to the close, no framing within", to_close, 0, "0\r\n\r\nx", kind::need_more, "0\r\n\r\nx", "", true},
  };
  for (const auto& c : cases) {
    INFO(c.name);
    const outcome expected{c.last, c.body, c.bytes.size() - c.rest.size(), c.ends_at_eof};
    const outcome whole = deliver(c, {c.bytes.size()});
    CHECK(whole.last == expected.last);
    CHECK(whole.body == expected.body);
    CHECK(whole.taken == expected.taken);
    CHECK(whole.ends_at_eof == expected.ends_at_eof);
    std::vector<std::size_t> each;
    for (std::size_t i = 0; i <= c.bytes.size(); ++i) each.push_back(i);
    CHECK(deliver(c, each) == whole);
    for (const std::size_t cut : each) CHECK(deliver(c, {cut, c.bytes.size()}) == whole);
  }
}

TEST_CASE("data views the input and the end is final") {
  reply_body body(reply_framing::content_length, 3);
  const std::string input = "abcdef";
  const chunk_step step = body.decode(input);
  CHECK(step.data.data() == input.data());
  CHECK(step.consumed == 3);
  CHECK(body.decode(std::string_view(input).substr(3)).what == kind::done);
  CHECK(body.decode("more").consumed == 0);
}

}  // namespace
}  // namespace weir::gateway::http
