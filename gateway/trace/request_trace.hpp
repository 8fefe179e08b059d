// One request in a trace: its own span, a child span for each attempt at a target, and the header lines that
// take the trace there. A caller's decision to sample is kept; without a caller `sample_share` decides. Where
// nothing is exported, a caller's traceparent still goes to the target as it came.
//
// One request, one thread; an attempt_span may outlive nothing of it but the exporter.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/trace/exporter.hpp"

namespace weir::gateway::trace {

// What the snapshot has of tracing.
struct tracer {
  std::shared_ptr<exporter> to;  // null: nothing is exported
  double sample_share = 0;
};

// Ends its span when it goes: as cancelled, unless it was told how.
class attempt_span final {
 public:
  attempt_span() = default;
  attempt_span(std::shared_ptr<exporter> to, span begun) : to_(std::move(to)), span_(std::move(begun)) {}
  attempt_span(attempt_span&& other) noexcept : to_(std::move(other.to_)), span_(std::move(other.span_)) {}
  attempt_span& operator=(attempt_span&& other) noexcept {
    std::swap(to_, other.to_);
    std::swap(span_, other.span_);
    return *this;
  }
  ~attempt_span();

  void add(std::string_view name, decltype(attribute::second) value);
  void first_token();
  void ended(std::string_view error = {});  // empty: well

 private:
  std::shared_ptr<exporter> to_;  // null: nothing is recorded
  span span_;
};

class request_trace final {
 public:
  request_trace() = default;  // of a request that is in no trace
  // The headers of the request; empty: it has none.
  request_trace(const tracer& how, std::string_view trace_parent, std::string_view trace_state);

  bool recorded() const noexcept { return to_ != nullptr; }
  std::string id() const;  // in hexadecimal; empty: the request is in no trace

  attempt_span begin_attempt(std::string name, std::string_view target);
  // Of the attempt begun last, each ending in CRLF.
  const std::string& header_lines() const noexcept { return lines_; }

  void add(std::string_view name, decltype(attribute::second) value);
  // The request is over. Nothing is recorded behind it.
  void ended(std::string name, std::string_view error);

 private:
  std::shared_ptr<exporter> to_;
  bool in_trace_ = false;
  trace_parent self_;  // its span is the request's
  span_id parent_{};
  std::string state_;
  std::int64_t begun_unix_ns_ = 0;
  std::vector<attribute> attributes_;
  std::string lines_;
};

}  // namespace weir::gateway::trace
