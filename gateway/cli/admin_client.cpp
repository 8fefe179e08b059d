#include "gateway/cli/admin_client.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>

#include "engine/text/printable.hpp"
#include "gateway/auth/key_store.hpp"
#include "gateway/auth/private_file.hpp"
#include "gateway/cli/commands.hpp"
#include "gateway/config/base_url.hpp"

namespace weir::gateway::cli {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using beast::http::status;

constexpr std::int64_t k_timeout_max_s = 3600;
constexpr std::size_t k_message_bytes_max = 2000;
constexpr std::size_t k_answer_bytes_max = std::size_t{64} << 20;

using http_request = beast::http::request<beast::http::string_body>;
using http_response = beast::http::response<beast::http::string_body>;

// Connects, writes and reads before one deadline, which a peer that sends a byte now and then does not move.
http_response exchange(const config::base_url& url, const http_request& request, std::int64_t timeout_s) {
  asio::io_context io(1);
  const auto finish = [&io](auto step) {
    io.restart();
    io.run();
    return step.get();
  };
  asio::ip::tcp::resolver resolver(io);
  const auto found = resolver.resolve(url.host, std::to_string(url.port));
  beast::tcp_stream stream(io);
  stream.expires_after(std::chrono::seconds(timeout_s));
  finish(stream.async_connect(found, asio::use_future));
  finish(beast::http::async_write(stream, request, asio::use_future));
  beast::flat_buffer buffer;
  beast::http::response_parser<beast::http::string_body> parser;
  parser.body_limit(k_answer_bytes_max);
  finish(beast::http::async_read(stream, buffer, parser, asio::use_future));
  return parser.release();
}

std::expected<http_response, admin_failure> send_to(const config::base_url& url, const http_request& request,
                                                    std::int64_t timeout_s) {
  try {
    return exchange(url, request, timeout_s);
  } catch (const boost::system::system_error& e) {
    const bool late = e.code() == beast::error::timeout;
    return std::unexpected(admin_failure{
        k_failed,
        fmt::format("{}: {}; is that the admin address of a running weir? 'weir serve' prints it, "
                    "--url names it",
                    url.authority,
                    late ? fmt::format("no whole answer within {} s", timeout_s) : e.code().message())});
  }
}

// What the API is served under is fixed.
std::optional<config::base_url> parse_admin_url(const std::string& text) {
  const auto url = config::parse_base_url(text);
  if (!url || url->tls) return std::nullopt;
  const auto path = text.find(url->authority) + url->authority.size();
  if (path != text.size() && text.substr(path) != "/") return std::nullopt;
  return *url;
}

std::expected<std::string, admin_failure> read_key(const std::filesystem::path& file) {
  auto key = auth::read_private_file(file, auth::k_key_bytes_max);
  if (!key) return std::unexpected(admin_failure{k_bad_config, "--admin-key-file " + key.error()});
  if (std::all_of(key->begin(), key->end(), [](char c) { return c > 0x20 && c < 0x7f; }))
    return std::move(*key);
  return std::unexpected(admin_failure{
      k_bad_config,
      fmt::format("--admin-key-file {}: an admin key is one line of printable characters without space",
                  file.string())});
}

std::string message_of(const std::string& body) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  std::string_view message;
  if (parser.parse(body).get(root) || root["error"]["message"].get(message)) {
    return "an answer that is no error of weir: " + engine::text::printable(body, 200);
  }
  return engine::text::printable(message, k_message_bytes_max);
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
  app.add_option("--timeout-s", out.timeout_s, "Seconds until an answer must be there, whole")
      ->check(CLI::Range(std::int64_t{1}, k_timeout_max_s))
      ->capture_default_str();
}

std::expected<std::string, admin_failure> call_admin(const admin_address& at, beast::http::verb method,
                                                     const std::string& target, const std::string& body) {
  const auto url = parse_admin_url(at.url);
  if (!url) {
    return std::unexpected(admin_failure{
        k_bad_config, fmt::format("--url {}: expected http://HOST:PORT, without a path", at.url)});
  }
  http_request request{method, target, 11};
  request.set(beast::http::field::host, url->authority);
  if (!at.key_file.empty()) {
    const auto key = read_key(at.key_file);
    if (!key) return std::unexpected(key.error());
    request.set(beast::http::field::authorization, "Bearer " + *key);
  }
  if (!body.empty()) {
    request.set(beast::http::field::content_type, "application/json");
    request.body() = body;
  }
  request.prepare_payload();
  auto response = send_to(*url, request, at.timeout_s);
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
