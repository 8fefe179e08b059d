#include "gateway/trace/request_trace.hpp"

#include <chrono>
#include <random>

namespace weir::gateway::trace {

namespace {

std::int64_t unix_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

// Identifiers, not secrets.
std::uint64_t random_word() {
  thread_local std::mt19937_64 source{[] {
    std::random_device device;
    return (static_cast<std::uint64_t>(device()) << 32U) | device();
  }()};
  return source();
}

bool is_drawn(double share) {
  constexpr double k_words = 18446744073709551616.0;
  return share > 0 && static_cast<double>(random_word()) < share * k_words;
}

}  // namespace

attempt_span::~attempt_span() {
  ended("cancelled");
}

void attempt_span::add(std::string_view name, decltype(attribute::second) value) {
  if (to_) span_.attributes.emplace_back(name, std::move(value));
}

void attempt_span::first_token() {
  if (!to_) return;
  const double after_s = static_cast<double>(unix_ns() - span_.begun_unix_ns) / 1e9;
  add("gen_ai.response.time_to_first_chunk", after_s);
}

void attempt_span::ended(std::string_view error) {
  if (!to_) return;
  span_.ended_unix_ns = unix_ns();
  span_.error = error;
  if (!error.empty()) span_.attributes.emplace_back("error.type", std::string(error));
  std::exchange(to_, nullptr)->take(std::move(span_));
}

request_trace::request_trace(const tracer& how, std::string_view trace_parent, std::string_view trace_state) {
  const auto caller = read_trace_parent(trace_parent);
  if (!caller && !how.to) return;
  if (caller) {
    self_ = *caller;
    if (is_trace_state(trace_state)) state_ = trace_state;
  } else {
    self_.sampled = is_drawn(how.sample_share);
    if (!self_.sampled) return;
    self_.trace = make_trace_id(random_word(), random_word());
  }
  in_trace_ = true;
  if (!how.to) {
    lines_ = "traceparent: " + std::string(trace_parent) + "\r\n";
    if (!state_.empty()) lines_ += "tracestate: " + state_ + "\r\n";
    return;
  }
  if (caller) parent_ = caller->span;
  self_.span = make_span_id(random_word());
  if (self_.sampled) to_ = how.to;
  begun_unix_ns_ = unix_ns();
}

std::string request_trace::id() const {
  return in_trace_ ? to_hex(self_.trace) : std::string();
}

attempt_span request_trace::begin_attempt(std::string name, std::string_view target) {
  if (!in_trace_ || begun_unix_ns_ == 0) return {};
  trace_parent there = self_;
  there.span = make_span_id(random_word());
  lines_ = "traceparent: " + write_trace_parent(there) + "\r\n";
  if (!state_.empty()) lines_ += "tracestate: " + state_ + "\r\n";
  if (!to_) return {};
  span begun{.trace = self_.trace,
             .id = there.span,
             .parent = self_.span,
             .state = state_,
             .name = std::move(name),
             .kind = span_kind::client,
             .begun_unix_ns = unix_ns()};
  begun.attributes.emplace_back("weir.target", std::string(target));
  return {to_, std::move(begun)};
}

void request_trace::add(std::string_view name, decltype(attribute::second) value) {
  if (to_) attributes_.emplace_back(name, std::move(value));
}

void request_trace::ended(std::string name, std::string_view error) {
  if (!to_) return;
  if (!error.empty()) add("error.type", std::string(error));
  std::exchange(to_, nullptr)
      ->take({.trace = self_.trace,
              .id = self_.span,
              .parent = parent_,
              .state = std::move(state_),
              .name = std::move(name),
              .kind = span_kind::server,
              .begun_unix_ns = begun_unix_ns_,
              .ended_unix_ns = unix_ns(),
              .attributes = std::move(attributes_),
              .error = std::string(error)});
}

}  // namespace weir::gateway::trace
