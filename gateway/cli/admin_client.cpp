#include "gateway/cli/admin_client.hpp"

#include <fmt/format.h>
#include <simdjson.h>
#include <sys/socket.h>

#include <CLI/CLI.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include "gateway/auth/key_store.hpp"
#include "gateway/auth/private_file.hpp"
#include "gateway/cli/commands.hpp"
#include "gateway/config/base_url.hpp"

namespace weir::gateway::cli {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using beast::http::status;

constexpr long k_timeout_s = 10;
constexpr std::size_t k_answer_bytes_max = std::size_t{64} << 20;

using http_request = beast::http::request<beast::http::string_body>;
using http_response = beast::http::response<beast::http::string_body>;

std::expected<http_response, admin_failure> send_to(const config::base_url& url,
                                                    const http_request& request) {
  try {
    asio::io_context io(1);
    asio::ip::tcp::socket socket(io);
    asio::ip::tcp::resolver resolver(io);
    asio::connect(socket, resolver.resolve(url.host, std::to_string(url.port)));
    const timeval limit{.tv_sec = k_timeout_s, .tv_usec = 0};
    for (const int which : {SO_RCVTIMEO, SO_SNDTIMEO}) {
      setsockopt(socket.native_handle(), SOL_SOCKET, which, &limit, sizeof limit);
    }
    beast::http::write(socket, request);
    beast::flat_buffer buffer;
    beast::http::response_parser<beast::http::string_body> parser;
    parser.body_limit(k_answer_bytes_max);
    beast::http::read(socket, buffer, parser);
    return parser.release();
  } catch (const boost::system::system_error& e) {
    return std::unexpected(admin_failure{
        k_failed, fmt::format("{}: {}; is that the admin address of a running weir? 'weir serve' prints it, "
                              "--url names it",
                              url.authority, e.code().message())});
  }
}

std::string message_of(const std::string& body) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  std::string_view message;
  if (parser.parse(body).get(root) || root["error"]["message"].get(message)) {
    return "an answer that is no error of weir: " + body.substr(0, 200);
  }
  return std::string(message);
}

std::string hint(status code, const admin_address& at) {
  if (code != status::unauthorized) return {};
  if (at.key_file.empty()) return "; give the server's admin.key_file as --admin-key-file";
  return fmt::format("; {} holds another one than the server's admin.key_file", at.key_file.string());
}

}  // namespace

void add_admin_options(CLI::App& app, admin_address& out) {
  app.add_option("--url", out.url, "Admin address of the running weir")->capture_default_str();
  app.add_option("--admin-key-file", out.key_file, "The admin key, as its admin.key_file");
}

std::expected<std::string, admin_failure> call_admin(const admin_address& at, beast::http::verb method,
                                                     const std::string& target, const std::string& body) {
  const auto url = config::parse_base_url(at.url);
  if (!url || url->tls) {
    return std::unexpected(
        admin_failure{k_bad_config, fmt::format("--url {}: expected http://HOST:PORT", at.url)});
  }
  http_request request{method, target, 11};
  request.set(beast::http::field::host, url->authority);
  if (!at.key_file.empty()) {
    const auto key = auth::read_private_file(at.key_file, auth::k_key_bytes_max);
    if (!key) return std::unexpected(admin_failure{k_bad_config, "--admin-key-file " + key.error()});
    request.set(beast::http::field::authorization, "Bearer " + *key);
  }
  if (!body.empty()) {
    request.set(beast::http::field::content_type, "application/json");
    request.body() = body;
  }
  request.prepare_payload();
  auto response = send_to(*url, request);
  if (!response) return std::unexpected(std::move(response.error()));
  if (beast::http::to_status_class(response->result()) != beast::http::status_class::successful) {
    return std::unexpected(
        admin_failure{k_failed, message_of(response->body()) + hint(response->result(), at)});
  }
  return std::move(response->body());
}

std::string path_segment(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                       c == '-' || c == '_' || c == '~' || (c == '.' && text != "." && text != "..");
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

}  // namespace weir::gateway::cli
