// Where a request stands in its caller's trace, as W3C Trace Context has it: `traceparent` is read strictly,
// and one that is malformed starts the trace anew, as if there were none. Pure; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weir::gateway::trace {

inline constexpr std::size_t k_trace_state_bytes_max = 512;  // a longer one is not passed on

using trace_id = std::array<std::uint8_t, 16>;
using span_id = std::array<std::uint8_t, 8>;

struct trace_parent {
  trace_id trace{};
  span_id span{};  // the caller's
  bool sampled = false;

  friend bool operator==(const trace_parent&, const trace_parent&) = default;
};

// 00-32hex-16hex-2hex; later versions by what they share with it. Nothing: no such header.
std::optional<trace_parent> read_trace_parent(std::string_view header);
std::string write_trace_parent(const trace_parent& of);  // of version 00

std::string to_hex(const trace_id& id);
std::string to_hex(const span_id& id);

// Whether a tracestate may be passed on as it is: printable, no longer than the limit.
bool is_trace_state(std::string_view header) noexcept;

// From two random words that are not both 0.
trace_id make_trace_id(std::uint64_t one, std::uint64_t other) noexcept;
span_id make_span_id(std::uint64_t word) noexcept;

}  // namespace weir::gateway::trace
