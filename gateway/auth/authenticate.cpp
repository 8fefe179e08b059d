#include "gateway/auth/authenticate.hpp"

#include <algorithm>

#include "gateway/http/syntax.hpp"

namespace weir::gateway::auth {

namespace {

constexpr std::string_view k_bearer = "bearer ";

std::string_view presented_key(const http::request_head& head) {
  const auto authorization = head.fields.find("authorization");
  if (authorization != head.fields.end()) {
    std::string_view value(authorization->value().data(), authorization->value().size());
    const bool bearer =
        value.size() > k_bearer.size() && http::iequals(value.substr(0, k_bearer.size()), k_bearer);
    if (!bearer) return {};
    value.remove_prefix(k_bearer.size());
    value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
    return value;
  }
  const auto api_key = head.fields.find("x-api-key");
  if (api_key == head.fields.end()) return {};
  return {api_key->value().data(), api_key->value().size()};
}

}  // namespace

result<identity> authenticate(const http::request_head& head, const http::peer_info& peer,
                              const key_store& keys, bool loopback_open, std::int64_t now_s) {
  const auto key = presented_key(head);
  if (const auto* known = keys.find(key, now_s)) return *known;
  if (loopback_open && peer.loopback) return loopback_identity();
  if (key.empty()) {
    return fail(errc::missing_key, "no API key: send it as 'Authorization: Bearer KEY'");
  }
  return fail(errc::invalid_key, "this API key is not valid here");
}

}  // namespace weir::gateway::auth
