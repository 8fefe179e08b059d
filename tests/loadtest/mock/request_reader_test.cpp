#include "loadtest/mock/request_reader.hpp"

#include <catch2/catch.hpp>

namespace weir::loadtest::mock {
namespace {

const std::string k_sized =
    "POST /v1/x?y=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nAuthorization: Bearer k\r\n"
    "X-Mock-Fault: no-done\r\n\r\nhello";
const std::string k_chunked =
    "POST /c HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
    "3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\ntrailer: t\r\n\r\n";
const std::string k_bare = "GET /metrics HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";

TEST_CASE("requests are read wherever the stream is cut") {
  const std::string stream = k_sized + k_chunked + k_bare;
  const auto piece = GENERATE_COPY(range(std::size_t{1}, stream.size() + 1));
  request_reader reader;
  std::vector<request> found;
  for (std::size_t at = 0; at < stream.size(); at += piece) {
    std::string_view bytes = std::string_view(stream).substr(at, piece);
    while (!bytes.empty()) {
      bytes.remove_prefix(reader.take(bytes));
      REQUIRE_FALSE(reader.malformed());
      if (!reader.complete()) continue;
      found.push_back(reader.current());
      CHECK(reader.current().body.capacity() >= reader.current().body.size() + k_body_padding_bytes);
      reader.reset();
    }
  }
  REQUIRE(found.size() == 3);
  CHECK(found[0].method == "POST");
  CHECK(found[0].target == "/v1/x?y=1");
  CHECK(found[0].authorization == "Bearer k");
  CHECK(found[0].fault == "no-done");
  CHECK(found[0].body == "hello");
  CHECK(found[1].body == "abc0123456789");
  CHECK(found[1].fault.empty());
  CHECK(found[1].keep_alive);
  CHECK(found[2].target == "/metrics");
  CHECK_FALSE(found[2].keep_alive);
  CHECK_FALSE(reader.started());
}

// Whether the reader refuses `stream`, given whole and given byte by byte.
void check_refused(const std::string& stream, int status) {
  for (const std::size_t piece : {stream.size(), std::size_t{1}}) {
    request_reader reader;
    for (std::size_t at = 0; at < stream.size() && !reader.malformed(); at += piece) {
      REQUIRE_FALSE(reader.complete());
      reader.take(std::string_view(stream).substr(at, piece));
    }
    REQUIRE(reader.malformed());
    CHECK(reader.status() == status);
    CHECK(std::string(reader.reason()) != "");
  }
}

TEST_CASE("what breaks HTTP is malformed") {
  const auto [name, stream, status] = GENERATE(table<const char*, std::string, int>({
      {"bare LF", "GET / HTTP/1.1\nhost: a\n\n", 400},
      {"no host", "GET / HTTP/1.1\r\n\r\n", 400},
      {"two hosts", "GET / HTTP/1.1\r\nhost: a\r\nhost: a\r\n\r\n", 400},
      {"HTTP/2", "GET / HTTP/2.0\r\nhost: a\r\n\r\n", 400},
      {"two words", "GET /\r\nhost: a\r\n\r\n", 400},
      {"absolute target", "GET http://a/ HTTP/1.1\r\nhost: a\r\n\r\n", 400},
      {"space before colon", "GET / HTTP/1.1\r\nhost : a\r\n\r\n", 400},
      {"folded field", "GET / HTTP/1.1\r\nhost: a\r\n b\r\n\r\n", 400},
      {"leading empty line", "\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n", 400},
      {"control character", "GET / HTTP/1.1\r\nhost: a\x01\r\n\r\n", 400},
      {"two lengths", "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\n", 400},
      {"signed length", "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: +1\r\n\r\n", 400},
      {"length and chunks",
       "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n", 400},
      {"gzip chunks", "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n\r\n", 400},
      {"chunk size", "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nx\r\n", 400},
      {"long chunk", "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\r\nab\r\n", 400},
      {"long body", "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 268435457\r\n\r\n", 413},
      {"huge length", "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999999999999999\r\n\r\n", 413},
      {"huge chunk", "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n10000001\r\n", 413},
      {"long head", "GET / HTTP/1.1\r\nx: " + std::string(k_head_bytes_max, 'x'), 431},
  }));
  INFO(name);
  check_refused(stream, status);
}

TEST_CASE("an expectation is told once, while the body is awaited") {
  request_reader reader;
  reader.take("POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n");
  CHECK(reader.take_expectation());
  CHECK_FALSE(reader.take_expectation());
  reader.take("ok");
  CHECK(reader.complete());
}

}  // namespace
}  // namespace weir::loadtest::mock
