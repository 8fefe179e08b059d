#include "loadtest/http_get.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>

namespace weir::loadtest {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

asio::awaitable<http_answer> ask(asio::io_context& io, const http_address& at,
                                 http::request<http::empty_body> request, std::chrono::milliseconds timeout) {
  asio::ip::tcp::resolver resolver(io);
  const auto addresses = co_await resolver.async_resolve(at.host, at.port, asio::use_awaitable);
  beast::tcp_stream stream(io);
  stream.expires_after(timeout);
  co_await stream.async_connect(addresses, asio::use_awaitable);
  co_await http::async_write(stream, request, asio::use_awaitable);
  beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(k_get_bytes_max);
  co_await http::async_read(stream, buffer, parser, asio::use_awaitable);
  auto answer = parser.release();
  co_return http_answer{static_cast<int>(answer.result_int()), std::move(answer.body())};
}

}  // namespace

std::expected<http_answer, std::string> http_get(const http_address& at, const std::string& path,
                                                 const std::string& api_key,
                                                 std::chrono::milliseconds timeout) {
  http::request<http::empty_body> request{http::verb::get, path, 11};
  request.set(http::field::host, at.host + ":" + at.port);
  request.set(http::field::user_agent, "weir-loadtest");
  if (!api_key.empty()) request.set(http::field::authorization, "Bearer " + api_key);
  request.keep_alive(false);
  asio::io_context io(1);
  auto answer = asio::co_spawn(io, ask(io, at, std::move(request), timeout), asio::use_future);
  io.run();
  try {
    return answer.get();
  } catch (const boost::system::system_error& e) {
    return std::unexpected(e.code().message());
  }
}

}  // namespace weir::loadtest
