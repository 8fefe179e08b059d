#include "loadtest/bench/response_reader.hpp"

#include <catch2/catch.hpp>

namespace weir::loadtest::bench {
namespace {

const std::string k_sized = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nabcd";
const std::string k_stream =
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    "9\r\ndata: {}\n\r\n1\r\n\n\r\n1b\r\ndata: {\"a\":1}\n\ndata: [DONE]\r\n2\r\n\n\n\r\n0\r\n\r\n";
const std::string k_empty = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";

TEST_CASE("answers are read wherever the stream is cut") {
  const std::string stream = k_sized + k_stream + k_empty;
  const auto piece = GENERATE_COPY(range(std::size_t{1}, stream.size() + 1));
  response_reader reader;
  std::vector<std::tuple<int, std::int64_t, bool, bool>> found;
  for (std::size_t at = 0; at < stream.size(); at += piece) {
    auto bytes = std::string_view(stream).substr(at, piece);
    while (!bytes.empty()) {
      bytes.remove_prefix(reader.take(bytes));
      REQUIRE_FALSE(reader.broken());
      if (!reader.complete()) continue;
      found.emplace_back(reader.status(), reader.events(), reader.ends_with_done(), reader.closes());
      reader.reset();
    }
  }
  REQUIRE(found.size() == 3);
  CHECK(found[0] == std::tuple(200, 0, false, true));
  CHECK(found[1] == std::tuple(200, 3, true, false));
  CHECK(found[2] == std::tuple(503, 0, false, false));
}

TEST_CASE("what is no answer is broken") {
  const auto* bytes = GENERATE("HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n",
                               "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
                               "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nx\r\n",
                               "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nab\r\n");
  INFO(bytes);
  response_reader reader;
  reader.take(bytes);
  CHECK(reader.broken());
}

}  // namespace
}  // namespace weir::loadtest::bench
