#include "loadtest/mock/faults.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace weir::loadtest::mock {

namespace {

constexpr fault_row k_faults[] = {
    {fault::none, "none", "answers as usual; in a request, exempts it from --fault"},
    {fault::reset_before_head, "reset-before-head", "RST instead of an answer, when the first token is due"},
    {fault::reset_mid_stream, "reset-mid-stream", "RST after half of the tokens"},
    {fault::close_mid_stream, "close-mid-stream", "FIN after half of the tokens, without the last chunk"},
    {fault::stall_before_head, "stall-before-head", "nothing is answered, the connection stays open"},
    {fault::stall_mid_stream, "stall-mid-stream",
     "half of the tokens, then nothing, the connection stays open"},
    {fault::status_500, "status-500", "500 with an error body"},
    {fault::status_503, "status-503", "503 with an error body"},
    {fault::status_429, "status-429", "429 with an error body and retry-after: 1"},
    {fault::error_event_first, "error-event-first", "a stream of one error event and [DONE]"},
    {fault::error_event_mid, "error-event-mid", "an error event and [DONE] after half of the tokens"},
    {fault::garbage_event, "garbage-event",
     "an event that is neither JSON nor UTF-8 in the middle of a stream"},
    {fault::half_event_then_close, "half-event-then-close",
     "the first half of an event in a whole chunk, then FIN"},
    {fault::extra_bytes, "extra-bytes", "bytes that belong to no answer behind a complete one"},
    {fault::short_body, "short-body",
     "content-length (a stream's last chunk) says more than is sent, then FIN"},
    {fault::no_done, "no-done", "a stream that ends properly but without [DONE]"},
    {fault::keepalive_close, "keepalive-close",
     "FIN behind a complete answer that promised to keep the connection"},
};

}  // namespace

std::span<const fault_row> fault_table() {
  return k_faults;
}

std::optional<fault> find_fault(std::string_view name) {
  const auto* row = std::ranges::find(k_faults, name, &fault_row::name);
  if (row == std::end(k_faults)) return std::nullopt;
  return row->kind;
}

std::string fault_help() {
  std::string out;
  for (const auto& row : k_faults) out += fmt::format("  {:<23}{}\n", row.name, row.what);
  return out;
}

std::expected<fault_share, std::string> parse_fault_share(std::string_view text) {
  const auto colon = text.find(':');
  const auto kind = find_fault(text.substr(0, colon));
  if (!kind) return std::unexpected(fmt::format("'{}' names no fault", text));
  fault_share out{*kind, 1};
  if (colon == std::string_view::npos) return out;
  const auto share = text.substr(colon + 1);
  const auto [end, error] = std::from_chars(share.data(), share.data() + share.size(), out.share);
  if (error != std::errc{} || end != share.data() + share.size() || !(out.share > 0 && out.share <= 1))
    return std::unexpected(fmt::format("the share in '{}' is not in (0, 1]", text));
  return out;
}

fault draw_fault(std::span<const fault_share> shares, std::mt19937_64& random) {
  if (shares.empty()) return fault::none;
  double left = std::uniform_real_distribution<double>(0, 1)(random);
  for (const auto& [kind, share] : shares) {
    if (left < share) return kind;
    left -= share;
  }
  return fault::none;
}

}  // namespace weir::loadtest::mock
