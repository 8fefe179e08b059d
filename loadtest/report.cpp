#include "loadtest/report.hpp"

#include <fmt/format.h>

namespace weir::loadtest {

namespace {

constexpr std::size_t k_failure_reasons_max = 20;

std::string row(const char* name, const histogram& h) {
  return fmt::format("{:<28}{:>10.2f}{:>10.2f}{:>10.2f}{:>10.2f}{:>10.2f}\n", name, h.mean_s() * 1e3,
                     h.quantile_s(0.5) * 1e3, h.quantile_s(0.95) * 1e3, h.quantile_s(0.99) * 1e3,
                     h.max_s() * 1e3);
}

std::string fields(const char* name, const histogram& h) {
  return fmt::format(
      R"(,"mean_{0}_ms":{1:.4f},"median_{0}_ms":{2:.4f},"p95_{0}_ms":{3:.4f},"p99_{0}_ms":{4:.4f})", name,
      h.mean_s() * 1e3, h.quantile_s(0.5) * 1e3, h.quantile_s(0.95) * 1e3, h.quantile_s(0.99) * 1e3);
}

}  // namespace

void report::add(const request_result& result, double from_intended_s) {
  tokens_lost_ += result.tokens_lost;
  tokens_reordered_ += result.tokens_reordered;
  if (!result.ok) {
    ++failed_;
    const bool known = failures_.contains(result.failure) || failures_.size() < k_failure_reasons_max;
    ++failures_[known ? result.failure : "other"];
    return;
  }
  first_token_.add(result.first_token_s);
  end_to_end_.add(result.duration_s);
  from_intended_.add(from_intended_s);
  if (result.output_tokens > 1) {
    per_token_.add((result.duration_s - result.first_token_s) /
                   static_cast<double>(result.output_tokens - 1));
  }
  for (const double gap : result.gaps_s) gaps_.add(gap);
  output_tokens_ += result.output_tokens;
}

std::string report::table(double run_s) const {
  std::string out = fmt::format(
      "{} completed, {} failed in {:.2f} s: {:.1f} requests/s, {:.1f} output tokens/s\n", completed(),
      failed_, run_s, static_cast<double>(completed()) / run_s, static_cast<double>(output_tokens_) / run_s);
  out += fmt::format("{:<28}{:>10}{:>10}{:>10}{:>10}{:>10}\n", "ms", "mean", "median", "p95", "p99", "max");
  out += row("time to first token", first_token_);
  out += row("time per output token", per_token_);
  out += row("inter-token gap", gaps_);
  out += row("end to end", end_to_end_);
  out += row("end to end, from schedule", from_intended_);
  if (tokens_lost_ > 0 || tokens_reordered_ > 0)
    out += fmt::format("{} tokens lost, {} out of order\n", tokens_lost_, tokens_reordered_);
  for (const auto& [reason, count] : failures_) out += fmt::format("failed {} times: {}\n", count, reason);
  return out;
}

std::string report::json(double run_s) const {
  return fmt::format(R"({{"duration":{:.4f},"completed":{},"failed":{},"total_output_tokens":{},)"
                     R"("tokens_lost":{},"tokens_reordered":{},)"
                     R"("request_throughput":{:.4f},"output_throughput":{:.4f}{}{}{}{}}})",
                     run_s, completed(), failed_, output_tokens_, tokens_lost_, tokens_reordered_,
                     static_cast<double>(completed()) / run_s, static_cast<double>(output_tokens_) / run_s,
                     fields("ttft", first_token_), fields("tpot", per_token_), fields("itl", gaps_),
                     fields("e2el", end_to_end_)) +
         "\n";
}

}  // namespace weir::loadtest
