#include "loadtest/replay/live.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <exception>
#include <thread>
#include <vector>

#include "loadtest/client.hpp"
#include "loadtest/file_limit.hpp"
#include "loadtest/http_get.hpp"
#include "loadtest/replay/gateway_numbers.hpp"

namespace weir::loadtest::replay {

namespace {

namespace asio = boost::asio;
using clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds k_start_delay{100};
// Until the gateway's metrics have all that was answered.
constexpr std::chrono::seconds k_settle_timeout{10};
constexpr std::chrono::milliseconds k_settle_poll{50};

double seconds(clock::duration d) {
  return std::chrono::duration<double>(d).count();
}

std::string name_of(const http_address& at) {
  return fmt::format("http://{}:{}", at.host, at.port);
}

// Whether the gateway serves the model, as a sentence where not.
std::expected<void, std::string> check_model(const live_options& options) {
  const auto at = name_of(options.gateway);
  const auto answer = http_get(options.gateway, "/v1/models", options.api_key);
  if (!answer) return std::unexpected(fmt::format("no gateway answers at {}: {}", at, answer.error()));
  if (answer->status == 401)
    return std::unexpected(fmt::format("the gateway at {} asks for a key: --key-file", at));
  simdjson::dom::parser parser;
  simdjson::dom::array models;
  if (answer->status != 200 || parser.parse(answer->body)["data"].get(models))
    return std::unexpected(fmt::format("{}/v1/models: status {}, no list of models", at, answer->status));
  std::string names;
  for (const auto model : models) {
    std::string_view id;
    if (model["id"].get(id)) continue;
    if (id == options.model) return {};
    names += fmt::format("{}{}", names.empty() ? "" : ", ", id);
  }
  return std::unexpected(
      fmt::format("the gateway at {} serves no model '{}', but: {}", at, options.model, names));
}

std::expected<gateway_numbers, std::string> ask_numbers(const live_options& options) {
  const auto at = name_of(options.admin);
  const auto answer = http_get(options.admin, "/metrics");
  if (!answer) return std::unexpected(fmt::format("no metrics at {}: {}", at, answer.error()));
  auto numbers = read_numbers(answer->body);
  if (answer->status != 200 || !numbers.routes) {
    return std::unexpected(
        fmt::format("{}/metrics: status {}, not those of a gateway that predicts reuse; is --admin-url its "
                    "admin address?",
                    at, answer->status));
  }
  return numbers;
}

class live_run {
 public:
  live_run(std::span<const trace_request> trace, const live_options& options)
      : trace_(trace), options_(options) {
    spec_.host = options.gateway.host;
    spec_.port = options.gateway.port;
    spec_.path = "/v1/completions";
    spec_.api_key = options.api_key;
  }

  // Empty, or why it ended early.
  std::string execute() {
    asio::co_spawn(io_, send_all(), [](std::exception_ptr fault) {
      if (fault) std::rethrow_exception(fault);
    });
    io_.run();
    return fault_;
  }

  std::vector<float> ttft_s, late_s;  // of the trace's time
  double prompt_tokens = 0, cached_tokens = 0;

 private:
  asio::awaitable<void> send_all() {
    const auto start = clock::now() + k_start_delay;
    asio::steady_timer timer(io_);
    for (std::size_t i = 0; i < trace_.size(); ++i) {
      const std::chrono::duration<double> offset((trace_[i].at_s - trace_[0].at_s) / options_.speed);
      const auto intended = start + std::chrono::duration_cast<clock::duration>(offset);
      timer.expires_at(intended);
      co_await timer.async_wait(asio::use_awaitable);
      asio::co_spawn(io_, one(i, intended), [](std::exception_ptr fault) {
        if (fault) std::rethrow_exception(fault);
      });
    }
  }

  asio::awaitable<void> one(std::size_t index, clock::time_point intended) {
    request_spec spec = spec_;
    spec.body = fmt::format(R"({{"model":"{}","max_tokens":1,"stream":true,)"
                            R"("stream_options":{{"include_usage":true}},"prompt":)",
                            options_.model);
    append_prompt(trace_[index], index, options_.form, spec.body);
    spec.body += '}';
    const double late_s_now = seconds(clock::now() - intended);
    const auto result = co_await run_request(spec, parser_);
    take(trace_[index], result, late_s_now);
    if (!fault_.empty()) io_.stop();
  }

  void take(const trace_request& asked, const request_result& got, double late) {
    if (!got.ok) {
      fault_ = fmt::format("request {} of {} failed: {}", ttft_s.size() + 1, trace_.size(), got.failure);
    } else if (got.prompt_tokens != asked.input_tokens || got.cached_tokens < 0) {
      fault_ = fmt::format(
          "a replica counted {} tokens of a prompt of {} and {} of them as cached: targets must be mocks "
          "that "
          "keep a cache (weir-loadtest mock --retention ...)",
          got.prompt_tokens, asked.input_tokens, got.cached_tokens);
    } else {
      ttft_s.push_back(static_cast<float>((late + got.first_token_s) * options_.speed));
      late_s.push_back(static_cast<float>(late * options_.speed));
      prompt_tokens += static_cast<double>(got.prompt_tokens);
      cached_tokens += static_cast<double>(got.cached_tokens);
      if (options_.progress) options_.progress(ttft_s.size());
    }
  }

  std::span<const trace_request> trace_;
  const live_options& options_;
  request_spec spec_;
  simdjson::dom::parser parser_;
  asio::io_context io_{1};
  std::string fault_;
};

// The numbers added since `before`, once they count `answers` of them.
std::expected<gateway_numbers, std::string> settled(const live_options& options,
                                                    const gateway_numbers& before, std::size_t answers) {
  const auto limit = clock::now() + k_settle_timeout;
  for (;;) {
    const auto now = ask_numbers(options);
    if (!now) return now;
    auto added = since(*now, before);
    const auto counted = added.answers_in_all();
    if (counted == static_cast<double>(answers)) return added;
    if (counted > static_cast<double>(answers) || clock::now() > limit) {
      return std::unexpected(fmt::format(
          "the gateway counts {} answers of replicas where there were {}: is --admin-url the same "
          "gateway's, and nobody else's?",
          counted, answers));
    }
    std::this_thread::sleep_for(k_settle_poll);
  }
}

}  // namespace

std::expected<live_result, std::string> run_live(std::span<const trace_request> trace,
                                                 const live_options& options) {
  if (auto served = check_model(options); !served) return std::unexpected(served.error());
  const auto before = ask_numbers(options);
  if (!before) return std::unexpected(before.error());
  raise_file_limit();
  live_run run(trace, options);
  if (auto fault = run.execute(); !fault.empty()) return std::unexpected(std::move(fault));
  const auto added = settled(options, *before, trace.size());
  if (!added) return std::unexpected(added.error());

  live_result out;
  auto& r = out.figures;
  r.ttft_s = std::move(run.ttft_s);
  summarize_ttft(r);
  r.hit_rate = run.cached_tokens / run.prompt_tokens;
  r.predicted_hit_rate = added->predicted_tokens / added->prompt_tokens;
  r.prediction_error_mean = added->error_tokens / added->prompt_tokens;
  double most = 0;
  for (const auto& [target, count] : added->answers) most = std::max(most, count);
  r.load_spread = most * static_cast<double>(options.replicas) / added->answers_in_all();
  r.decision_us_p99 = added->decision_s(0.99) * 1e6;
  std::sort(run.late_s.begin(), run.late_s.end());
  out.late_p99_s = static_cast<double>(run.late_s[run.late_s.size() * 99 / 100]);
  return out;
}

}  // namespace weir::loadtest::replay
