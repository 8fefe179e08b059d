#include "gateway/admin/access.hpp"

#include <algorithm>
#include <boost/asio/ip/address.hpp>

#include "gateway/auth/authenticate.hpp"
#include "gateway/http/syntax.hpp"

namespace weir::gateway::admin {

namespace {

std::optional<std::string_view> field(const http::request_head& head, std::string_view name) {
  const auto [first, last] = head.fields.equal_range(name);
  if (first == last) return std::nullopt;
  // Of two nothing is believed.
  if (std::next(first) != last) return std::string_view();
  return std::string_view(first->value().data(), first->value().size());
}

// Without a port and brackets.
std::string_view name_of(std::string_view host) {
  if (host.starts_with('[')) {
    const auto end = host.find(']');
    return end == host.npos ? std::string_view() : host.substr(1, end - 1);
  }
  return host.substr(0, host.rfind(':'));
}

bool is_loopback(std::string_view name) {
  boost::system::error_code ec;
  const auto address = boost::asio::ip::make_address(std::string(name), ec);
  return !ec && address.is_loopback();
}

}  // namespace

bool is_own_host(std::string_view host, std::span<const std::string> allowed) {
  if (!http::is_host(host)) return false;
  const auto name = name_of(host);
  if (http::iequals(name, "localhost") || is_loopback(name)) return true;
  return std::any_of(allowed.begin(), allowed.end(), [&](const std::string& one) {
    return http::iequals(one, host) || http::iequals(one, name);
  });
}

result<void> check_host(const http::request_head& head, std::span<const std::string> allowed) {
  const auto host = field(head, "host");
  if (host && is_own_host(*host, allowed)) return {};
  return fail(errc::misdirected, "this listener does not serve that host");
}

result<void> check_origin(const http::request_head& head, std::span<const std::string> allowed) {
  const auto refused = [] { return fail(errc::forbidden, "not for pages from elsewhere"); };
  const auto site = field(head, "sec-fetch-site");
  if (site && *site != "same-origin" && *site != "none") return refused();
  auto origin = field(head, "origin");
  if (!origin) return {};
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!origin->starts_with(scheme)) continue;
    if (is_own_host(origin->substr(scheme.size()), allowed)) return {};
  }
  return refused();
}

result<void> check_key(const http::request_head& head, const std::optional<auth::admin_key>& key) {
  if (!key) {
    return fail(errc::forbidden,
                "closed: no admin key is configured. Make one with 'weir keys admin-key --file F', set "
                "admin.key_file: F and reload");
  }
  if (key->opens(auth::presented_key(head, "x-admin-key"))) return {};
  return fail(errc::invalid_key, "this needs a valid admin key");
}

}  // namespace weir::gateway::admin
