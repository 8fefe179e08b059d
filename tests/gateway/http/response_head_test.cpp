#include "gateway/http/response_head.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "gateway/http/byte_budget.hpp"
#include "gateway/http/read_buffer.hpp"

namespace weir::gateway::http {
namespace {

response_head plain_head() {
  response_head head;
  head.content_type = "text/plain";
  head.request_id = "id";
  head.date = "Thu, 01 Jan 1970 00:00:00 GMT";
  return head;
}

TEST_CASE("a head is what the wire needs") {
  response_head head = plain_head();
  head.content_length = 5;
  header_list headers;
  headers.emplace_back("retry-after", "1");
  const std::string common = "date: Thu, 01 Jan 1970 00:00:00 GMT\r\ncontent-type: text/plain\r\n";
  CHECK(format_head(head, headers) ==
        "HTTP/1.1 200 OK\r\n" + common + "content-length: 5\r\nx-request-id: id\r\nretry-after: 1\r\n\r\n");
  head.body = response_head::body_kind::chunked;
  head.close = true;
  head.status = 503;
  CHECK(format_head(head, {}) ==
        "HTTP/1.1 503 Service Unavailable\r\n" + common +
            "transfer-encoding: chunked\r\nx-request-id: id\r\nconnection: close\r\n\r\n");
}

TEST_CASE("nothing that would split or reframe a response is formatted") {
  struct row {
    std::string_view name;
    std::string value;
  };
  using namespace std::string_literals;
  const std::vector<row> rows{{"a", "b\r\nc: d"},
                              {"a", "b\n"},
                              {"a", "b\r"},
                              {"a", "b\0"s},
                              {"a", "\x7f"},
                              {"a b", "c"},
                              {"", "c"},
                              {"a:", "c"},
                              {"a\r\nb", "c"},
                              {"Date", "x"},
                              {"Content-Length", "5"},
                              {"connection", "close"},
                              {"Transfer-Encoding", "chunked"},
                              {"x-request-id", "y"}};
  for (const auto& r : rows) {
    INFO(r.name << '=' << r.value);
    header_list headers;
    headers.emplace_back(r.name, r.value);
    CHECK_FALSE(format_head(plain_head(), headers));
  }
  response_head head = plain_head();
  head.content_type = "a\r\nb: c";
  CHECK_FALSE(format_head(head, {}));
  for (const int status : {0, 100, 199, 600, -200}) {
    head = plain_head();
    head.status = status;
    CHECK_FALSE(format_head(head, {}));
  }
}

TEST_CASE("dates are IMF-fixdate") {
  CHECK(format_date(0) == "Thu, 01 Jan 1970 00:00:00 GMT");
  CHECK(format_date(784111777) == "Sun, 06 Nov 1994 08:49:37 GMT");
}

TEST_CASE("a budget is never passed and comes back") {
  byte_budget budget(100);
  {
    budget_hold first(budget);
    CHECK(first.grow_to(60));
    CHECK(first.grow_to(50));
    CHECK(budget.used_bytes() == 60);
    budget_hold second(budget);
    CHECK_FALSE(second.grow_to(41));
    CHECK(second.grow_to(40));
    CHECK_FALSE(first.grow_to(61));
    CHECK(budget.used_bytes() == 100);
  }
  CHECK(budget.used_bytes() == 0);
}

TEST_CASE("a read buffer keeps what is unread") {
  read_buffer buffer;
  const auto put = [&buffer](std::string_view bytes, std::size_t bytes_max) {
    const std::span<char> room = buffer.prepare(bytes_max);
    REQUIRE(room.size() >= bytes.size());
    std::copy(bytes.begin(), bytes.end(), room.begin());
    buffer.commit(bytes.size());
  };
  put("hello", 8);
  buffer.consume(2);
  put("wor", 8);
  CHECK(buffer.unread() == "llowor");
  CHECK(buffer.prepare(6).empty());
  const std::string body(2 * k_idle_buffer_bytes, 'x');
  put(body, k_body_buffer_bytes);
  CHECK(buffer.unread() == "llowor" + body);
  buffer.shrink();
  CHECK(buffer.unread() == "llowor" + body);
  buffer.consume(6 + k_idle_buffer_bytes);
  buffer.shrink();
  CHECK(buffer.unread() == std::string(k_idle_buffer_bytes, 'x'));
  buffer.consume(k_idle_buffer_bytes - 3);
  CHECK(buffer.unread() == "xxx");
  CHECK(buffer.prepare(4).size() == 1);
}

TEST_CASE("large blocks of read buffers are kept warm, and hold what is unread of their own buffer only") {
  std::array<read_buffer, 3> buffers;
  for (std::size_t round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const std::string body(2 * k_idle_buffer_bytes, static_cast<char>('a' + i));
      const auto room = buffers[i].prepare(k_body_buffer_bytes);
      REQUIRE(room.size() == k_body_buffer_bytes);
      std::copy(body.begin(), body.end(), room.begin());
      buffers[i].commit(body.size());
    }
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      CHECK(buffers[i].unread() == std::string(2 * k_idle_buffer_bytes, static_cast<char>('a' + i)));
      buffers[i].consume(2 * k_idle_buffer_bytes);
      buffers[i].shrink();
      CHECK(buffers[i].unread().empty());
    }
  }
}

}  // namespace
}  // namespace weir::gateway::http
