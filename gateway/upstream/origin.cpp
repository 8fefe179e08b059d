#include "gateway/upstream/origin.hpp"

#include <fmt/format.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>

#include "gateway/auth/private_file.hpp"
#include "gateway/http/syntax.hpp"

namespace weir::gateway::upstream {

namespace {

namespace ssl = boost::asio::ssl;

constexpr std::size_t k_key_bytes_max = 4096;
constexpr std::size_t k_keys_bytes_max = 64 << 10;

std::expected<std::vector<std::string>, std::string> read_keys(const std::filesystem::path& file) {
  std::vector<std::string> out;
  if (file.empty()) return out;
  const auto text = auth::read_private_file(file, k_keys_bytes_max);
  if (!text) return std::unexpected("api_key_file: " + text.error());
  for (std::size_t begin = 0; begin <= text->size();) {
    const auto end = std::min(text->find('\n', begin), text->size());
    std::string key = text->substr(begin, end - begin);
    if (key.ends_with('\r')) key.pop_back();
    begin = end + 1;
    if (key.empty() || key.size() > k_key_bytes_max || key.find(' ') != std::string::npos ||
        !http::is_field_value(key)) {
      return std::unexpected(
          fmt::format("api_key_file: line {} of {} does not hold a key", out.size() + 1, file.string()));
    }
    out.push_back(std::move(key));
  }
  return out;
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

bool upstream_key::usable() const noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return out_until_ns.load(std::memory_order_relaxed) <= std::chrono::nanoseconds(now).count();
}

void upstream_key::take_out() const noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  out_until_ns.store(std::chrono::nanoseconds(now).count() + policy::failover::k_key_out_ns,
                     std::memory_order_relaxed);
}

const upstream_key* origin::next_key() const noexcept {
  if (keys.empty()) return nullptr;
  if (keys.size() == 1) return &keys.front();
  const auto first = key_turn.fetch_add(1, std::memory_order_relaxed);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto& key = keys[(first + i) % keys.size()];
    if (key.usable()) return &key;
  }
  return &*std::min_element(keys.begin(), keys.end(), [](const auto& a, const auto& b) {
    return a.out_until_ns.load(std::memory_order_relaxed) < b.out_until_ns.load(std::memory_order_relaxed);
  });
}

bool origin::has_usable_key() const noexcept {
  return keys.empty() || std::any_of(keys.begin(), keys.end(), [](const auto& key) { return key.usable(); });
}

std::expected<void, std::string> check_credentials(const config::target_config& target) {
  if (const auto keys = read_keys(target.http.api_key_file); !keys) return std::unexpected(keys.error());
  if (target.http.ca_file.empty()) return {};
  if (const auto tls = make_client_tls(target.http.ca_file); !tls) return std::unexpected(tls.error());
  return {};
}

std::expected<std::shared_ptr<const origin>, std::string> make_origin(const config::target_config& target,
                                                                      std::chrono::milliseconds write_idle,
                                                                      resolver& names,
                                                                      observe::upstream_counters counters,
                                                                      const origin* before) {
  static std::atomic<std::uint64_t> next_id = 1;
  auto url = config::parse_base_url(target.http.base_url);
  if (!url) return std::unexpected(url.error());
  auto keys = read_keys(target.http.api_key_file);
  if (!keys) return std::unexpected(keys.error());
  auto out = std::make_shared<origin>();
  out->id = next_id.fetch_add(1, std::memory_order_relaxed);
  out->name = target.name;
  out->config = target.http;
  out->url = std::move(*url);
  for (auto& key : *keys) out->keys.emplace_back(std::move(key));
  out->settings.handshake_timeout = std::chrono::milliseconds(target.http.tls_timeout_ms);
  out->settings.write_idle = write_idle;
  out->counters = counters;
  out->in_flight = before != nullptr ? before->in_flight : std::make_shared<std::atomic<std::int64_t>>(0);
  if (out->url.tls) {
    auto tls = make_client_tls(target.http.ca_file);
    if (!tls) return std::unexpected(tls.error());
    out->tls = std::move(*tls);
  }
  out->addresses = names.follow(out->url.host, out->url.port);
  return out;
}

}  // namespace weir::gateway::upstream
