#include "gateway/api/endpoints.hpp"

#include <array>

namespace weir::gateway::api {

namespace {

using boost::beast::http::verb;

constexpr std::array k_api{
    endpoint{"/v1/chat/completions", false, verb::post, access::key, "chat_completions", &serve_chat},
    endpoint{"/v1/completions", false, verb::post, access::key, "completions", &serve_completions},
    endpoint{"/v1/models", false, verb::get, access::key, "models", &serve_models},
    endpoint{"/v1/models/", true, verb::get, access::key, "model", &serve_model},
    endpoint{"/healthz", false, verb::get, access::open, "healthz", &serve_health},
    endpoint{"/readyz", false, verb::get, access::open, "readyz", &serve_ready},
};

constexpr std::array k_admin{
    endpoint{"/admin/v1/explain", false, verb::post, access::open, "explain", &serve_explain},
    endpoint{"/metrics", false, verb::get, access::open, "metrics", &serve_metrics},
    endpoint{"/healthz", false, verb::get, access::open, "healthz", &serve_health},
    endpoint{"/readyz", false, verb::get, access::open, "readyz", &serve_ready},
};

}  // namespace

std::span<const endpoint> api_endpoints() noexcept {
  return k_api;
}
std::span<const endpoint> admin_endpoints() noexcept {
  return k_admin;
}

}  // namespace weir::gateway::api
