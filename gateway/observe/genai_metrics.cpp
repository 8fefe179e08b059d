#include "gateway/observe/genai_metrics.hpp"

#include <utility>

namespace weir::gateway::observe {

namespace {

using boundaries = prometheus::Histogram::BucketBoundaries;

constexpr int k_errors_begin = 400;

const boundaries k_tokens{1,     4,     16,     64,      256,     1024,     4096,
                          16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864};
const boundaries k_duration{0.01, 0.02, 0.04, 0.08,  0.16,  0.32,  0.64,
                            1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92};
const boundaries k_first_token{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                               0.25,  0.5,   0.75, 1.0,  2.5,  5.0,  7.5,  10.0};
const boundaries k_per_token{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5};

constexpr std::pair<std::string_view, std::string_view> k_operations[] = {
    {"chat_completions", "chat"},       {"messages", "chat"},         {"responses", "chat"},
    {"completions", "text_completion"}, {"embeddings", "embeddings"},
};

constexpr std::pair<std::string_view, std::string_view> k_providers[] = {
    {"openai", "openai"},       {"vllm", "vllm"},   {"moonshot", "moonshot_ai"},
    {"anthropic", "anthropic"}, {"engine", "weir"},
};

prometheus::Family<prometheus::Histogram>& family(prometheus::Registry& registry, const char* name,
                                                  const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

}  // namespace

std::string_view operation_of(std::string_view endpoint) noexcept {
  for (const auto& [name, operation] : k_operations) {
    if (name == endpoint) return operation;
  }
  return {};
}

std::string_view provider_of(std::string_view dialect) noexcept {
  for (const auto& [name, provider] : k_providers) {
    if (name == dialect) return provider;
  }
  return "openai";
}

genai_metrics::genai_metrics(prometheus::Registry& registry)
    : tokens_(family(registry, "gen_ai_client_token_usage", "Tokens of a request, by type")),
      duration_(family(registry, "gen_ai_server_request_duration_seconds",
                       "From the complete head to the last byte")),
      first_token_(family(registry, "gen_ai_server_time_to_first_token_seconds",
                          "From the complete head to the first streamed byte")),
      per_token_(family(registry, "gen_ai_server_time_per_output_token_seconds",
                        "Between streamed tokens behind the first, mean of a request")) {}

const genai_metrics::series& genai_metrics::series_of(const key_view& of) {
  const std::lock_guard lock(mutex_);
  const auto known = series_.find(of);
  if (known != series_.end()) return known->second;
  const auto& [operation, provider, model, status] = of;
  prometheus::Labels labels{{"gen_ai_operation_name", std::string(operation)},
                            {"gen_ai_provider_name", std::string(provider)},
                            {"gen_ai_request_model", std::string(model)}};
  const auto of_type = [&](const char* type) {
    auto out = labels;
    out.emplace("gen_ai_token_type", type);
    return out;
  };
  series made{.duration = nullptr,
              .first_token = &first_token_.Add(labels, k_first_token),
              .per_token = &per_token_.Add(labels, k_per_token),
              .input_tokens = &tokens_.Add(of_type("input"), k_tokens),
              .output_tokens = &tokens_.Add(of_type("output"), k_tokens)};
  auto timed = labels;
  if (status != 0) timed.emplace("error_type", std::to_string(status));
  made.duration = &duration_.Add(timed, k_duration);
  return series_.emplace(key{operation, provider, model, status}, made).first->second;
}

void genai_metrics::observe(const genai_numbers& n) {
  const auto operation = operation_of(n.endpoint);
  if (operation.empty() || n.provider.empty()) return;
  const auto& s = series_of({operation, n.provider, n.model, n.status >= k_errors_begin ? n.status : 0});
  s.duration->Observe(n.duration_s);
  if (n.first_token_s >= 0) s.first_token->Observe(n.first_token_s);
  if (n.per_token_s >= 0) s.per_token->Observe(n.per_token_s);
  if (n.prompt_tokens > 0) s.input_tokens->Observe(static_cast<double>(n.prompt_tokens));
  if (n.completion_tokens > 0) s.output_tokens->Observe(static_cast<double>(n.completion_tokens));
}

}  // namespace weir::gateway::observe
