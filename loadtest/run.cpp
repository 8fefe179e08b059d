#include "loadtest/run.hpp"

#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdio>
#include <exception>

#include "loadtest/arrivals.hpp"
#include "loadtest/endpoint.hpp"
#include "loadtest/file_limit.hpp"

namespace weir::loadtest {

namespace {

namespace asio = boost::asio;
using clock = std::chrono::steady_clock;

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  out += '"';
}

class load_run {
 public:
  load_run(const run_options& options, request_spec spec) : options_(options), spec_(std::move(spec)) {
    spec_.api_key = options.api_key;
    spec_.check_sequence = options.check_sequence;
    spec_.timeout = std::chrono::milliseconds(options.timeout_ms);
    if (options.rate_per_s > 0) {
      schedule_ =
          poisson_arrivals_s(static_cast<std::size_t>(options.requests), options.rate_per_s, options.seed);
    }
  }

  run_outcome execute() {
    start_ = clock::now();
    const auto lanes =
        schedule_.empty() ? std::min(options_.concurrency, options_.requests) : options_.requests;
    for (std::int64_t i = 0; i < lanes; ++i) {
      asio::co_spawn(io_,
                     schedule_.empty()
                         ? take_turns(options_.ramp_s * static_cast<double>(i) / static_cast<double>(lanes))
                         : at_its_time(i),
                     rethrow);
    }
    if (options_.progress) asio::co_spawn(io_, show_progress(), rethrow);
    io_.run();
    return {std::move(report_), std::chrono::duration<double>(clock::now() - start_).count()};
  }

 private:
  static void rethrow(std::exception_ptr fault) {
    if (fault) std::rethrow_exception(fault);
  }

  std::string body(std::int64_t index) const {
    const auto& prompt = options_.prompts[static_cast<std::size_t>(index) % options_.prompts.size()];
    std::string out = R"({"model":)";
    append_quoted(out, options_.model);
    out += R"(,"messages":[{"role":"user","content":)";
    append_quoted(out, prompt);
    out += fmt::format(
        R"(}}],"max_tokens":{},"temperature":{},"stream":true,"stream_options":{{"include_usage":true}}}})",
        options_.max_tokens, options_.temperature);
    return out;
  }

  asio::awaitable<void> one(std::int64_t index, clock::time_point intended) {
    request_spec spec = spec_;
    spec.body = body(index);
    const auto result = co_await run_request(spec, parser_);
    report_.add(result, std::chrono::duration<double>(clock::now() - intended).count());
    ++ended_;
  }

  asio::awaitable<void> take_turns(double start_s) {
    if (start_s > 0) {
      const std::chrono::duration<double> offset(start_s);
      asio::steady_timer timer(io_, start_ + std::chrono::duration_cast<clock::duration>(offset));
      co_await timer.async_wait(asio::use_awaitable);
    }
    while (next_ < options_.requests) {
      const auto index = next_++;
      co_await one(index, clock::now());
    }
  }

  asio::awaitable<void> at_its_time(std::int64_t index) {
    const std::chrono::duration<double> offset(schedule_[static_cast<std::size_t>(index)]);
    const auto intended = start_ + std::chrono::duration_cast<clock::duration>(offset);
    asio::steady_timer timer(io_, intended);
    co_await timer.async_wait(asio::use_awaitable);
    co_await one(index, intended);
  }

  asio::awaitable<void> show_progress() {
    asio::steady_timer timer(io_);
    while (ended_ < options_.requests) {
      timer.expires_after(std::chrono::seconds(1));
      co_await timer.async_wait(asio::use_awaitable);
      fmt::print(stderr, "{}/{} ended, {} failed\n", ended_, options_.requests, report_.failed());
    }
  }

  const run_options& options_;
  request_spec spec_;
  std::vector<double> schedule_;
  simdjson::dom::parser parser_;
  asio::io_context io_{1};
  clock::time_point start_;
  report report_;
  std::int64_t next_ = 0;
  std::int64_t ended_ = 0;
};

}  // namespace

std::expected<run_outcome, std::string> run(const run_options& options) {
  const auto at = parse_http_url(options.url);
  if (!at) return std::unexpected(at.error());
  request_spec spec;
  spec.host = at->host;
  spec.port = at->port;
  if (options.prompts.empty()) return std::unexpected("no prompts");
  raise_file_limit();
  return load_run(options, std::move(spec)).execute();
}

}  // namespace weir::loadtest
