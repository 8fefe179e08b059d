#include "gateway/observe/request_probe.hpp"

#include <fmt/chrono.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "engine/text/printable.hpp"
#include "gateway/api/json.hpp"
#include "gateway/observe/log.hpp"

namespace weir::gateway::observe {

namespace {

// As a reverse proxy writes it: the client left before an answer.
constexpr int k_client_closed_status = 499;

// RFC 3339, milliseconds.
std::string now_utc() {
  using std::chrono::floor;
  using std::chrono::milliseconds;
  const auto now = floor<milliseconds>(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", floor<std::chrono::seconds>(now),
                     now.time_since_epoch().count() % 1000);
}

// A line stays one JSON line of valid UTF-8 whatever a client sent.
void append_text(std::string& line, std::string_view text) {
  if (engine::text::is_printable(text)) return api::append_quoted(line, text);
  api::append_quoted(line, engine::text::printable(text));
}

}  // namespace

request_probe::request_probe(metrics& m, const http::exchange& ex, report what)
    : metrics_(m), exchange_(ex), report_(what), start_(std::chrono::steady_clock::now()) {
  if (report_ != report::nothing) metrics_.request_started();
}

double request_probe::seconds_since_start() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void request_probe::first_token() {
  if (first_token_s_ < 0) first_token_s_ = seconds_since_start();
}

void request_probe::start_trace(const trace::tracer& how) {
  std::string parent;
  std::string state;
  // Several lines of tracestate are one list, several of traceparent none.
  const auto join = [&](std::string_view name, std::string& to) {
    const auto [begin, end] = exchange_.head().fields.equal_range({name.data(), name.size()});
    for (auto at = begin; at != end; ++at) {
      if (at != begin) to += ',';
      to.append(at->value().data(), at->value().size());
    }
  };
  join("traceparent", parent);
  join("tracestate", state);
  trace_ = trace::request_trace(how, parent, state);
}

void request_probe::body_read() {
  body_read_s_ = seconds_since_start();
}

void request_probe::target_starts(double waited_s) {
  if (overhead_s_ >= 0) return;
  waited_s_ = waited_s;
  overhead_s_ = std::max(0.0, seconds_since_start() - body_read_s_ - waited_s);
}

double request_probe::per_token_s(double duration_s) const {
  if (first_token_s_ < 0 || completion_tokens_ < 2) return -1;
  return std::max(0.0, duration_s - first_token_s_) / static_cast<double>(completion_tokens_ - 1);
}

void request_probe::end_trace(int status) {
  if (!trace_.recorded()) return;
  const auto operation = operation_of(endpoint_);
  if (!operation.empty()) trace_.add("gen_ai.operation.name", std::string(operation));
  if (!provider_.empty()) trace_.add("gen_ai.provider.name", std::string(provider_));
  if (model_ != "none") trace_.add("gen_ai.request.model", model_);
  if (prompt_tokens_ > 0) trace_.add("gen_ai.usage.input_tokens", prompt_tokens_);
  if (completion_tokens_ > 0) trace_.add("gen_ai.usage.output_tokens", completion_tokens_);
  if (cached_tokens_ >= 0) trace_.add("gen_ai.usage.cache_read.input_tokens", cached_tokens_);
  if (first_token_s_ >= 0) trace_.add("gen_ai.response.time_to_first_chunk", first_token_s_);
  trace_.add("http.response.status_code", static_cast<std::int64_t>(status));
  trace_.add("weir.request_id", std::string(exchange_.request_id()));
  if (!key_.empty()) trace_.add("weir.key", key_);
  if (!target_.empty()) trace_.add("weir.target", target_);
  if (!evidence_.empty()) trace_.add("weir.evidence", std::string(evidence_));
  if (predicted_tokens_ > 0) trace_.add("weir.predicted_cached_tokens", predicted_tokens_);
  if (cost_usd_ >= 0) trace_.add("weir.cost_usd", cost_usd_);
  trace_.add("weir.waited_s", waited_s_);
  std::string name(operation.empty() ? endpoint_ : operation);
  if (model_ != "none") name += ' ' + model_;
  trace_.ended(std::move(name), outcome_);
}

void request_probe::count_traffic(int status, double duration_s) const {
  const bool left = status == k_client_closed_status;
  const bool failed = !left && (status >= 400 || !outcome_.empty());
  // A whole answer shows its tokens at once: only its errors and attempts are judged.
  const bool in_time = contract_.is_met(first_token_s_, per_token_s(duration_s));
  const bool cache_known = cached_tokens_ >= 0;
  const std::int64_t now_s =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  traffic_->add(model_, target_,
                {.hosted = hosted_,
                 .requests = 1,
                 .accepted = !left && !failed && attempts_ == 1 && in_time ? 1 : 0,
                 .failed = failed ? 1 : 0,
                 .retried = attempts_ > 1 ? 1 : 0,
                 .local_only = local_only_ ? 1 : 0,
                 .prompt_tokens = prompt_tokens_,
                 .known_tokens = cache_known ? prompt_tokens_ : 0,
                 .cached_tokens = cache_known ? std::min(cached_tokens_, prompt_tokens_) : 0,
                 .output_tokens = completion_tokens_,
                 .cost = charge_,
                 .first_s = now_s,
                 .last_s = now_s});
}

request_probe::~request_probe() {
  if (report_ == report::nothing) return;
  if (const auto* why = exchange_.cut_for()) outcome_ = info(why->code).code;
  const int sent = exchange_.status_sent();
  const int status = sent == 0 || outcome_ == "client_closed_request" ? k_client_closed_status : sent;
  const double duration_s = seconds_since_start();
  metrics_.request_ended({.endpoint = endpoint_,
                          .model = model_,
                          .status = status,
                          .duration_s = duration_s,
                          .first_token_s = first_token_s_,
                          .prompt_tokens = prompt_tokens_,
                          .completion_tokens = completion_tokens_,
                          .provider = provider_,
                          .per_token_s = per_token_s(duration_s),
                          .overhead_s = overhead_s_});
  if (traffic_ != nullptr) count_traffic(status, duration_s);
  end_trace(status);
  if (report_ != report::metrics_and_line) return;
  const auto trace_id = trace_.id();
  std::string line = fmt::format(R"({{"time":"{}","request_id":)", now_utc());
  append_text(line, exchange_.request_id());
  line += R"(,"client":)";
  append_text(line, exchange_.peer().address);
  line += fmt::format(R"(,"endpoint":"{}","status":{})", endpoint_, status);
  for (const auto& [name, value] : {std::pair<std::string_view, std::string_view>{"key", key_},
                                    {"model", model_},
                                    {"target", target_},
                                    {"evidence", evidence_},
                                    {"trace_id", trace_id},
                                    {"error", outcome_},
                                    {"detail", detail_}}) {
    if (value.empty()) continue;
    line += fmt::format(R"(,"{}":)", name);
    append_text(line, value);
  }
  if (attempts_ > 1) line += fmt::format(R"(,"attempts":{})", attempts_);
  if (hedged_) line += R"(,"hedged":true)";
  if (retry_denied_) line += R"(,"retry_denied":true)";
  line += fmt::format(R"(,"duration_ms":{:.1f})", duration_s * 1e3);
  if (first_token_s_ >= 0) line += fmt::format(R"(,"ttft_ms":{:.1f})", first_token_s_ * 1e3);
  if (overhead_s_ >= 0) line += fmt::format(R"(,"overhead_ms":{:.3f})", overhead_s_ * 1e3);
  if (waited_s_ > 0) line += fmt::format(R"(,"waited_ms":{:.1f})", waited_s_ * 1e3);
  if (predicted_ttft_s_ >= 0) line += fmt::format(R"(,"predicted_ttft_ms":{:.1f})", predicted_ttft_s_ * 1e3);
  if (predicted_tokens_ > 0) line += fmt::format(R"(,"predicted_cached_tokens":{})", predicted_tokens_);
  if (cached_tokens_ >= 0) line += fmt::format(R"(,"cached_tokens":{})", cached_tokens_);
  if (cost_usd_ >= 0) line += fmt::format(R"(,"cost_usd":{:.9f})", cost_usd_);
  if (unpriced_) line += R"(,"unpriced":true)";
  if (estimated_) line += R"(,"estimated":true)";
  line += fmt::format(R"(,"prompt_tokens":{},"completion_tokens":{},"bytes_out":{}}})", prompt_tokens_,
                      completion_tokens_, exchange_.bytes_sent());
  access_logger().info(line);
}

}  // namespace weir::gateway::observe
