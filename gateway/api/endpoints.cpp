#include "gateway/api/endpoints.hpp"

#include <algorithm>
#include <array>

#include "gateway/admin/handlers.hpp"

namespace weir::gateway::api {

namespace {

using boost::beast::http::verb;

constexpr std::array k_api{
    endpoint{"/v1/chat/completions", verb::post, access::key, "chat_completions", &serve_chat},
    endpoint{"/v1/completions", verb::post, access::key, "completions", &serve_completions},
    endpoint{"/v1/embeddings", verb::post, access::key, "embeddings", &serve_embeddings},
    endpoint{"/v1/responses", verb::post, access::key, "responses", &serve_responses},
    endpoint{"/v1/messages", verb::post, access::key, "messages", &serve_messages, error_shape::messages},
    endpoint{"/v1/messages/count_tokens", verb::post, access::key, "count_tokens", &serve_count_tokens,
             error_shape::messages},
    endpoint{"/v1/tokenize", verb::post, access::key, "tokenize", &serve_tokenize},
    endpoint{"/tokenize", verb::post, access::key, "tokenize", &serve_tokenize},
    endpoint{"/v1/models", verb::get, access::key, "models", &serve_models},
    endpoint{"/v1/models/{model...}", verb::get, access::key, "model", &serve_model},
    endpoint{"/healthz", verb::get, access::open, "healthz", &serve_health},
    endpoint{"/readyz", verb::get, access::open, "readyz", &serve_ready},
};

// What routers and balancers ask of a vLLM besides.
constexpr std::array k_of_replica{
    endpoint{"/metrics", verb::get, access::key, "metrics", &serve_replica_metrics},
    endpoint{"/health", verb::get, access::open, "healthz", &serve_health},
};

constexpr auto k_replica = [] {
  std::array<endpoint, k_api.size() + k_of_replica.size()> out{};
  std::copy(k_of_replica.begin(), k_of_replica.end(), std::copy(k_api.begin(), k_api.end(), out.begin()));
  return out;
}();

constexpr std::array k_admin{
    endpoint{"/admin/v1/keys", verb::get, access::admin, "keys", &admin::serve<&admin::list_keys>},
    endpoint{"/admin/v1/keys", verb::post, access::admin, "keys", &admin::serve<&admin::create_key>},
    endpoint{"/admin/v1/keys/{id}", verb::get, access::admin, "key", &admin::serve<&admin::show_key>},
    endpoint{"/admin/v1/keys/{id}", verb::patch, access::admin, "key", &admin::serve<&admin::change_key>},
    endpoint{"/admin/v1/keys/{id}", verb::delete_, access::admin, "key", &admin::serve<&admin::erase_key>},
    endpoint{"/admin/v1/keys/{id}/rotate", verb::post, access::admin, "key_rotate",
             &admin::serve<&admin::rotate_key>},
    endpoint{"/admin/v1/keys/{id}/revoke", verb::post, access::admin, "key_revoke",
             &admin::serve<&admin::revoke_key>},
    endpoint{"/admin/v1/tenants", verb::get, access::admin, "tenants", &admin::serve<&admin::list_tenants>},
    endpoint{"/admin/v1/tenants/{name}", verb::get, access::admin, "tenant",
             &admin::serve<&admin::show_tenant>},
    endpoint{"/admin/v1/tenants/{name}", verb::put, access::admin, "tenant",
             &admin::serve<&admin::put_tenant>},
    endpoint{"/admin/v1/ledger", verb::get, access::admin, "ledger", &admin::serve<&admin::show_ledger>},
    endpoint{"/admin/v1/traffic", verb::get, access::admin, "traffic", &admin::serve<&admin::show_traffic>},
    endpoint{"/admin/v1/shadow/pairs", verb::get, access::admin, "shadow", &admin::serve<&admin::list_pairs>},
    endpoint{"/admin/v1/openapi.json", verb::get, access::open, "openapi",
             &admin::serve<&admin::show_openapi>},
    endpoint{"/admin/v1/explain", verb::post, access::admin_if_set, "explain", &serve_explain},
    endpoint{"/metrics", verb::get, access::open, "metrics", &serve_metrics},
    endpoint{"/healthz", verb::get, access::open, "healthz", &serve_health},
    endpoint{"/readyz", verb::get, access::open, "readyz", &serve_ready},
};

}  // namespace

std::optional<std::string_view> match_path(std::string_view pattern, std::string_view path) noexcept {
  const auto open = pattern.find('{');
  if (open == pattern.npos) return path == pattern ? std::optional<std::string_view>("") : std::nullopt;
  const auto before = pattern.substr(0, open);
  const auto close = pattern.find('}');
  const auto behind = pattern.substr(close + 1);
  if (path.size() <= before.size() + behind.size()) return std::nullopt;
  if (!path.starts_with(before) || !path.ends_with(behind)) return std::nullopt;
  const auto part = path.substr(before.size(), path.size() - before.size() - behind.size());
  const bool rest = pattern.substr(0, close).ends_with("...");
  if (!rest && part.find('/') != part.npos) return std::nullopt;
  return part;
}

std::span<const endpoint> api_endpoints() noexcept {
  return k_api;
}
std::span<const endpoint> admin_endpoints() noexcept {
  return k_admin;
}
std::span<const endpoint> replica_endpoints() noexcept {
  return k_replica;
}

}  // namespace weir::gateway::api
