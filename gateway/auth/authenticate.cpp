#include "gateway/auth/authenticate.hpp"

#include <algorithm>

#include "gateway/http/syntax.hpp"

namespace weir::gateway::auth {

namespace {

constexpr std::string_view k_bearer = "bearer ";

}  // namespace

std::string_view presented_key(const http::request_head& head, std::string_view other_field) noexcept {
  // Of two nothing is believed.
  if (head.fields.count("authorization") > 1 || head.fields.count(other_field) > 1) return {};
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
  const auto other = head.fields.find(other_field);
  if (other == head.fields.end()) return {};
  return {other->value().data(), other->value().size()};
}

result<identity> authenticate(const http::request_head& head, const key_store& keys, std::int64_t now_s) {
  const auto key = presented_key(head, "x-api-key");
  if (const auto* known = keys.find(key, now_s)) return *known;
  if (key.empty()) {
    return fail(errc::missing_key, "no API key: send it as 'Authorization: Bearer KEY'");
  }
  return fail(errc::invalid_key, std::string(k_not_valid));
}

}  // namespace weir::gateway::auth
