// Who may use the admin listener: requests that mean this host (a page of a foreign name that resolves here
// does not), that no foreign page sent, and that carry the admin key. Refusals are the same for all and
// reveal nothing. Pure; any thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "gateway/auth/admin_key.hpp"
#include "gateway/errc.hpp"
#include "gateway/http/exchange.hpp"

namespace weir::gateway::admin {

// Whether a Host value names localhost, a loopback address or one of `allowed`, with any port.
bool is_own_host(std::string_view host, std::span<const std::string> allowed);

// Before anything else is looked at. 421 misdirected.
result<void> check_host(const http::request_head& head, std::span<const std::string> allowed);

// 403 forbidden where a browser sends it for a page from elsewhere.
result<void> check_origin(const http::request_head& head, std::span<const std::string> allowed);

// 401 without the key in `Authorization: Bearer` or `x-admin-key`; 403 where no key is configured.
result<void> check_key(const http::request_head& head, const std::optional<auth::admin_key>& key);

}  // namespace weir::gateway::admin
