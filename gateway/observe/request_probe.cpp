#include "gateway/observe/request_probe.hpp"

#include <fmt/chrono.h>
#include <spdlog/spdlog.h>

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
                          .completion_tokens = completion_tokens_});
  if (report_ != report::metrics_and_line) return;
  std::string line = fmt::format(R"({{"time":"{}","request_id":)", now_utc());
  append_text(line, exchange_.request_id());
  line += R"(,"client":)";
  append_text(line, exchange_.peer().address);
  line += fmt::format(R"(,"endpoint":"{}","status":{})", endpoint_, status);
  for (const auto& [name, value] : {std::pair<std::string_view, std::string_view>{"key", key_},
                                    {"model", model_},
                                    {"target", target_},
                                    {"error", outcome_},
                                    {"detail", detail_}}) {
    if (value.empty()) continue;
    line += fmt::format(R"(,"{}":)", name);
    append_text(line, value);
  }
  if (attempts_ > 1) line += fmt::format(R"(,"attempts":{})", attempts_);
  line += fmt::format(R"(,"duration_ms":{:.1f})", duration_s * 1e3);
  if (first_token_s_ >= 0) line += fmt::format(R"(,"ttft_ms":{:.1f})", first_token_s_ * 1e3);
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
