// Who sends a request: the one place that reads credentials. Reads the validated head only. Pure; any thread.
#pragma once

#include "gateway/auth/key_store.hpp"
#include "gateway/errc.hpp"
#include "gateway/http/exchange.hpp"

namespace weir::gateway::auth {

inline constexpr std::string_view k_not_valid = "this API key is not valid here";

// The caller's identity, or missing_key, invalid_key. Accepts `Authorization: Bearer KEY` and `x-api-key:
// KEY`. `now_s`: Unix time.
result<identity> authenticate(const http::request_head& head, const key_store& keys, std::int64_t now_s);

// The credential of `Authorization: Bearer KEY`, or of `other_field` where there is no Authorization; empty:
// none, or more than one of a field.
std::string_view presented_key(const http::request_head& head, std::string_view other_field) noexcept;

}  // namespace weir::gateway::auth
