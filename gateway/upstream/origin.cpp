#include "gateway/upstream/origin.hpp"

#include <fmt/format.h>
#include <openssl/ssl.h>

#include <boost/asio/ip/address.hpp>

#include "gateway/auth/private_file.hpp"
#include "gateway/http/syntax.hpp"

namespace weir::gateway::upstream {

namespace {

namespace ssl = boost::asio::ssl;

constexpr std::size_t k_key_bytes_max = 4096;

std::expected<std::string, std::string> read_bearer(const std::filesystem::path& file) {
  if (file.empty()) return std::string();
  auto text = auth::read_private_file(file, k_key_bytes_max);
  if (!text) return std::unexpected("api_key_file: " + text.error());
  if (text->empty() || text->find(' ') != std::string::npos || !http::is_field_value(*text)) {
    return std::unexpected(fmt::format("api_key_file: {} does not hold one line with a key", file.string()));
  }
  return text;
}

std::expected<std::shared_ptr<ssl::context>, std::string> make_client_tls(const std::filesystem::path& ca) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_client);
  boost::system::error_code ec;
  if (ca.empty()) {
    context->set_default_verify_paths(ec);
  } else {
    context->load_verify_file(ca.string(), ec);
  }
  if (ec) return std::unexpected(fmt::format("certificate authorities {}: {}", ca.string(), ec.message()));
  context->set_verify_mode(ssl::verify_peer, ec);
  if (ec) return std::unexpected(fmt::format("TLS: {}", ec.message()));
  SSL_CTX* native = context->native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(native, SSL_MODE_RELEASE_BUFFERS);
  constexpr unsigned char k_http_1_1[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
  SSL_CTX_set_alpn_protos(native, k_http_1_1, sizeof k_http_1_1);
  return context;
}

}  // namespace

std::expected<void, std::string> check_credentials(const config::target_config& target) {
  if (const auto bearer = read_bearer(target.http.api_key_file); !bearer)
    return std::unexpected(bearer.error());
  if (target.http.ca_file.empty()) return {};
  if (const auto tls = make_client_tls(target.http.ca_file); !tls) return std::unexpected(tls.error());
  return {};
}

std::expected<std::shared_ptr<const origin>, std::string> make_origin(const config::target_config& target,
                                                                      std::chrono::milliseconds write_idle,
                                                                      resolver& names,
                                                                      observe::upstream_counters counters) {
  static std::atomic<std::uint64_t> next_id = 1;
  auto url = config::parse_base_url(target.http.base_url);
  if (!url) return std::unexpected(url.error());
  auto bearer = read_bearer(target.http.api_key_file);
  if (!bearer) return std::unexpected(bearer.error());
  auto out = std::make_shared<origin>();
  out->id = next_id.fetch_add(1, std::memory_order_relaxed);
  out->name = target.name;
  out->config = target.http;
  out->url = std::move(*url);
  out->bearer = std::move(*bearer);
  out->settings.handshake_timeout = std::chrono::milliseconds(target.http.tls_timeout_ms);
  out->settings.write_idle = write_idle;
  out->counters = counters;
  if (out->url.tls) {
    auto tls = make_client_tls(target.http.ca_file);
    if (!tls) return std::unexpected(tls.error());
    out->tls = std::move(*tls);
  }
  out->addresses = names.follow(out->url.host, out->url.port);
  return out;
}

}  // namespace weir::gateway::upstream
