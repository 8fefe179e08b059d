#include "gateway/http/reply_parser.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "gateway/http/limits.hpp"

namespace weir::gateway::http {
namespace {

struct verdict {
  parse_state state = parse_state::need_more;
  std::string reason;
  std::size_t head_bytes = 0;
  int status = 0;
  std::vector<std::string> fields;
  reply_framing framing = reply_framing::none;
  std::uint64_t content_length = 0;
  bool keep_alive = false;
  friend bool operator==(const verdict&, const verdict&) = default;
};

// Shows growing beginnings of `bytes`, each from memory of its own.
verdict deliver(std::string_view bytes, const std::vector<std::size_t>& cuts) {
  reply_parser parser;
  verdict out;
  for (const std::size_t cut : cuts) {
    const std::vector<char> shown(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(cut));
    const std::string_view buffer(shown.data(), shown.size());
    out.state = parser.parse(buffer);
    if (out.state == parse_state::need_more) continue;
    if (out.state == parse_state::reject) {
      out.reason = parser.reason();
      return out;
    }
    out.head_bytes = parser.head_bytes();
    out.status = parser.status();
    for (std::size_t i = 0; i < parser.field_count(); ++i) {
      const field_view field = parser.field(i, buffer);
      out.fields.push_back(std::string(field.name) + "=" + std::string(field.value));
    }
    out.framing = parser.framing();
    out.content_length = parser.content_length();
    out.keep_alive = parser.keep_alive();
    return out;
  }
  return out;
}

verdict deliver(std::string_view bytes) {
  return deliver(bytes, {bytes.size()});
}

void check_every_cut(std::string_view bytes, const verdict& whole) {
  std::vector<std::size_t> each;
  for (std::size_t i = 0; i <= bytes.size(); ++i) each.push_back(i);
  CHECK(deliver(bytes, each) == whole);
  for (const std::size_t cut : each) {
    if (deliver(bytes, {cut, bytes.size()}) != whole) FAIL_CHECK("cut at " << cut);
  }
}

TEST_CASE("a reply head is read, however it is cut") {
  const std::string head =
      "HTTP/1.1 200 Fine \xc3\xa9\r\nContent-Type:text/event-stream\r\nX-Empty:\r\n"
      "x-padded: \t a b\t \r\nTransfer-Encoding: Chunked\r\n\r\n";
  const std::string bytes = head + "5\r\nhello\r\n";
  const verdict whole = deliver(bytes);
  CHECK(whole.state == parse_state::ok);
  CHECK(whole.status == 200);
  CHECK(whole.head_bytes == head.size());
  CHECK(whole.framing == reply_framing::chunked);
  CHECK(whole.keep_alive);
  CHECK(whole.fields == std::vector<std::string>{"Content-Type=text/event-stream", "X-Empty=", "x-padded=a b",
                                                 "Transfer-Encoding=Chunked"});
  check_every_cut(bytes, whole);
}

struct refused_row {
  const char* name;
  std::string bytes;
  const char* reason;
};

void check_refused(const refused_row& row) {
  INFO(row.name);
  const std::string bytes = row.bytes + "X: y\r\n\r\n";
  const verdict whole = deliver(bytes);
  INFO(whole.reason);
  CHECK(whole.state == parse_state::reject);
  CHECK(whole.reason.find(row.reason) != std::string::npos);
  check_every_cut(bytes, whole);
}

const std::string k_ok = "HTTP/1.1 200 OK\r\n";

TEST_CASE("heads that are refused, however they are cut") {
  const refused_row rows[] = {
      {"empty first line", "\r\n", "status line"},
      {"HTTP/0.9 body", "hello\r\n", "status line"},
      {"HTTP/2.0", "HTTP/2.0 200 OK\r\n", "status line"},
      {"HTTP/1.2", "HTTP/1.2 200 OK\r\n", "status line"},
      {"HTTP/1.10", "HTTP/1.10 200 OK\r\n", "status line"},
      {"lower case", "http/1.1 200 OK\r\n", "status line"},
      {"leading space", " HTTP/1.1 200 OK\r\n", "status line"},
      {"two spaces", "HTTP/1.1  200 OK\r\n", "status line"},
      {"a tab", "HTTP/1.1\t200 OK\r\n", "status line"},
      {"two digits", "HTTP/1.1 20 OK\r\n", "status line"},
      {"two digits and an end", "HTTP/1.1 20\r\n", "status line"},
      {"four digits", "HTTP/1.1 2000 OK\r\n", "status line"},
      {"a sign", "HTTP/1.1 +20 OK\r\n", "status line"},
      {"letters", "HTTP/1.1 2x0 OK\r\n", "status line"},
      {"reason without a space", "HTTP/1.1 200OK\r\n", "status line"},
      {"status 099", "HTTP/1.1 099 \r\n", "100 to 599"},
      {"status 600", "HTTP/1.1 600 \r\n", "100 to 599"},
      {"status 101", "HTTP/1.1 101 Switching Protocols\r\n", "change of protocol"},
      {"bare LF after the status", "HTTP/1.1 200 OK\n", "bare LF"},
      {"bare LF in a field", k_ok + "a: b\n", "bare LF"},
      {"bare LF as the end", k_ok + "a: b\r\n\n", "bare LF"},
      {"bare CR in a value", k_ok + "a: b\rc: d\r\n", "control character"},
      {"CR twice", k_ok + "a: b\r\r\n", "control character"},
      {"NUL in the status line", std::string("HTTP/1.1 200 O\0K\r\n", 18), "control character"},
      {"NUL in a value", k_ok + std::string("a: b\0c\r\n", 8), "control character"},
      {"DEL in a value", k_ok + "a: \x7f\r\n", "control character"},
      {"obs-fold", k_ok + "a: b\r\n c\r\n", "obs-fold"},
      {"space before the first field", k_ok + " a: b\r\n", "obs-fold"},
      {"no colon", k_ok + "a\r\n", "without a colon"},
      {"empty name", k_ok + ": b\r\n", "empty field name"},
      {"space before the colon", k_ok + "Content-Length : 5\r\n", "white space between"},
      {"NBSP in a name", k_ok + "Content-Length\xa0: 5\r\n", "names may not have"},
      {"disguised length", k_ok + "Content_Length: 5\r\n", "'_' in place of"},
      {"connection malformed", k_ok + "Connection: a b\r\n", "malformed Connection"},
  };
  for (const auto& row : rows) check_refused(row);
}

TEST_CASE("framing that is refused, however it is cut") {
  const refused_row rows[] = {
      {"length empty", k_ok + "Content-Length:\r\n", "Content-Length"},
      {"length with a sign", k_ok + "Content-Length: +5\r\n", "Content-Length"},
      {"length below zero", k_ok + "Content-Length: -48\r\n", "Content-Length"},
      {"length in hexadecimal", k_ok + "Content-Length: 0x5\r\n", "Content-Length"},
      {"length as a list", k_ok + "Content-Length: 5, 5\r\n", "Content-Length"},
      {"length with junk", k_ok + "Content-Length: 5;\r\n", "Content-Length"},
      {"length of 2^63", k_ok + "Content-Length: 9223372036854775808\r\n", "Content-Length"},
      {"length of 100 digits", k_ok + "Content-Length: " + std::string(100, '9') + "\r\n", "Content-Length"},
      {"length twice, equal", k_ok + "Content-Length: 5\r\ncontent-length: 5\r\n", "two Content-Length"},
      {"length twice, other", k_ok + "Content-Length: 5\r\nContent-Length: 6\r\n", "two Content-Length"},
      {"coding and length", k_ok + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", "both"},
      {"length and coding", k_ok + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", "both"},
      {"coding in HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.0"},
      {"coding twice", k_ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "two Transfer"},
      {"coding empty", k_ok + "Transfer-Encoding:\r\n", "other than chunked"},
      {"coding identity", k_ok + "Transfer-Encoding: identity\r\n", "other than chunked"},
      {"coding gzip, chunked", k_ok + "Transfer-Encoding: gzip, chunked\r\n", "other than chunked"},
      {"coding chunked, chunked", k_ok + "Transfer-Encoding: chunked, chunked\r\n", "other than chunked"},
      {"coding xchunked", k_ok + "Transfer-Encoding: xchunked\r\n", "other than chunked"},
      {"coding with NBSP", k_ok + "Transfer-Encoding: chunked\xa0\r\n", "other than chunked"},
  };
  for (const auto& row : rows) check_refused(row);
}

TEST_CASE("framing and reuse of the connection") {
  using enum reply_framing;
  struct row {
    const char* start;
    const char* fields;
    reply_framing framing;
    std::uint64_t content_length;
    bool keep_alive;
  };
  const row rows[] = {
      {"HTTP/1.1 200 OK", "", to_close, 0, false},
      {"HTTP/1.1 200", "Content-Length: 0\r\n", content_length, 0, true},
      {"HTTP/1.1 200 ", "Content-Length: 0010\r\n", content_length, 10, true},
      {"HTTP/1.1 200 OK", "content-length: 9223372036854775807\r\n", content_length, 9223372036854775807,
       true},
      {"HTTP/1.1 200 OK", "transfer-encoding: CHUNKED\r\n", chunked, 0, true},
      {"HTTP/1.1 502 Bad", "Content-Length: 3\r\nConnection: close\r\n", content_length, 3, false},
      {"HTTP/1.1 200 OK", "Transfer-Encoding: chunked\r\nConnection: x, Close\r\n", chunked, 0, false},
      {"HTTP/1.1 200 OK", "Content-Length: 3\r\nConnection: keep-alive\r\nConnection: close\r\n",
       content_length, 3, false},
      {"HTTP/1.1 200 OK", "Content-Length: 3\r\nConnection: ,\r\n", content_length, 3, true},
      {"HTTP/1.0 200 OK", "Content-Length: 3\r\n", content_length, 3, false},
      {"HTTP/1.0 200 OK", "Content-Length: 3\r\nConnection: Keep-Alive\r\n", content_length, 3, true},
      {"HTTP/1.0 200 OK", "Connection: keep-alive\r\n", to_close, 0, false},
      {"HTTP/1.1 100 Continue", "", none, 0, true},
      {"HTTP/1.1 103 Hints", "Link: </x>\r\n", none, 0, true},
      {"HTTP/1.1 204 None", "", none, 0, true},
      {"HTTP/1.1 204 None", "Content-Length: 0\r\n", none, 0, true},
      {"HTTP/1.1 204 None", "Content-Length: 5\r\n", none, 5, false},
      {"HTTP/1.1 204 None", "Transfer-Encoding: chunked\r\n", none, 0, false},
      {"HTTP/1.1 304 Same", "Content-Length: 5\r\n", none, 5, true},
  };
  for (const auto& r : rows) {
    INFO(r.start << " " << r.fields);
    const verdict got = deliver(std::string(r.start) + "\r\n" + r.fields + "\r\n");
    CHECK(got.state == parse_state::ok);
    CHECK(got.framing == r.framing);
    CHECK(got.content_length == r.content_length);
    CHECK(got.keep_alive == r.keep_alive);
  }
}

TEST_CASE("limits of a reply head are met to the byte") {
  const std::string start = "HTTP/1.1 200 OK\r\na: ";
  const auto head_of = [&](std::size_t bytes) {
    return start + std::string(bytes - start.size() - 4, 'x') + "\r\n\r\n";
  };
  CHECK(deliver(head_of(k_reply_head_bytes_max)).state == parse_state::ok);
  for (const std::size_t cut : {std::size_t{0}, k_reply_head_bytes_max - 1, k_reply_head_bytes_max}) {
    const std::string bytes = head_of(k_reply_head_bytes_max + 1);
    const verdict got = deliver(bytes, {cut, bytes.size()});
    CHECK(got.state == parse_state::reject);
    CHECK(got.reason == "a head of more than 64 KiB");
  }
  // Nothing that could still come would make it a head.
  CHECK(deliver(std::string(k_reply_head_bytes_max, 'x')).state == parse_state::reject);
  CHECK(deliver(std::string(k_reply_head_bytes_max - 1, 'x')).state == parse_state::need_more);

  std::string fields = "HTTP/1.1 200 OK\r\n";
  for (std::size_t i = 0; i < k_reply_fields_max; ++i) fields += "a:\r\n";
  CHECK(deliver(fields + "\r\n").state == parse_state::ok);
  CHECK(deliver(fields + "a:\r\n\r\n").reason == "more than 200 fields");
}

TEST_CASE("a verdict is final until the next head") {
  reply_parser parser;
  CHECK(parser.parse("nonsense\r\n") == parse_state::reject);
  CHECK(parser.parse("nonsense\r\nHTTP/1.1 200 OK\r\n\r\n") == parse_state::reject);
  parser.reset();
  const std::string_view interim = "HTTP/1.1 100 Continue\r\nConnection: close\r\nContent-Length: 7\r\n\r\n";
  REQUIRE(parser.parse(interim) == parse_state::ok);
  parser.reset();
  const std::string_view final_head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  REQUIRE(parser.parse(final_head) == parse_state::ok);
  CHECK(parser.head_bytes() == final_head.size());
  CHECK(parser.field_count() == 1);
  CHECK(parser.framing() == reply_framing::chunked);
  CHECK(parser.keep_alive());
  CHECK(parser.parse("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nmore\n") == parse_state::ok);
}

}  // namespace
}  // namespace weir::gateway::http
