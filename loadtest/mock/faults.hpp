// The ways in which a mock replica can misbehave: one table for the command line, for a request's own wish
// and for the help text.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir::loadtest::mock {

// "Mid" is after half of the tokens; for an answer that is not a stream, after half of its bytes.
enum class fault : std::uint8_t {
  none,
  reset_before_head,
  reset_mid_stream,
  close_mid_stream,
  stall_before_head,
  stall_mid_stream,
  status_500,
  status_503,
  status_429,
  error_event_first,
  error_event_mid,
  garbage_event,
  half_event_then_close,
  extra_bytes,
  short_body,
  no_done,
  keepalive_close,
};

struct fault_row {
  fault kind;
  std::string_view name;
  std::string_view what;
};

std::span<const fault_row> fault_table();
std::optional<fault> find_fault(std::string_view name);

// The table as text for --help.
std::string fault_help();

struct fault_share {
  fault kind = fault::none;
  double share = 1;
};

// KIND or KIND:SHARE with a share in (0, 1]. The error is a sentence.
std::expected<fault_share, std::string> parse_fault_share(std::string_view text);

// At most one fault, each with the probability that is its share; what the shares leave of 1 is none.
// REQUIRES: the shares sum to at most 1.
fault draw_fault(std::span<const fault_share> shares, std::mt19937_64& random);

}  // namespace weir::loadtest::mock
