#include "gateway/trace/trace_context.hpp"

#include <algorithm>

namespace weir::gateway::trace {

namespace {

constexpr std::size_t k_header_bytes = 55;  // of version 00
constexpr std::string_view k_digits = "0123456789abcdef";

int digit_of(char c) noexcept {
  const auto at = k_digits.find(c);
  return at == k_digits.npos ? -1 : static_cast<int>(at);
}

// Lower-case digits only, as the standard demands; false: something else, or nothing but zeros.
template <std::size_t N>
bool read_id(std::string_view hex, std::array<std::uint8_t, N>& out) noexcept {
  bool any = false;
  for (std::size_t i = 0; i < N; ++i) {
    const int high = digit_of(hex[2 * i]);
    const int low = digit_of(hex[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    out[i] = static_cast<std::uint8_t>(high * 16 + low);
    any = any || out[i] != 0;
  }
  return any;
}

template <std::size_t N>
std::string hex_of(const std::array<std::uint8_t, N>& id) {
  std::string out;
  out.reserve(2 * N);
  for (const auto byte : id) {
    out += k_digits[byte >> 4U];
    out += k_digits[byte & 15U];
  }
  return out;
}

void put(std::uint64_t word, std::uint8_t* to) noexcept {
  for (int i = 0; i < 8; ++i) to[i] = static_cast<std::uint8_t>(word >> (8 * i));
}

}  // namespace

std::optional<trace_parent> read_trace_parent(std::string_view header) {
  if (header.size() < k_header_bytes || header[2] != '-' || header[35] != '-' || header[52] != '-') {
    return std::nullopt;
  }
  const int version_high = digit_of(header[0]);
  const int version_low = digit_of(header[1]);
  if (version_high < 0 || version_low < 0 || header.starts_with("ff")) return std::nullopt;
  const bool is_first = header.starts_with("00");
  if (is_first && header.size() != k_header_bytes) return std::nullopt;
  if (header.size() > k_header_bytes && header[k_header_bytes] != '-') return std::nullopt;
  trace_parent out;
  if (!read_id(header.substr(3, 32), out.trace) || !read_id(header.substr(36, 16), out.span)) {
    return std::nullopt;
  }
  const int high = digit_of(header[53]);
  const int low = digit_of(header[54]);
  if (high < 0 || low < 0) return std::nullopt;
  out.sampled = (low & 1) != 0;
  return out;
}

std::string write_trace_parent(const trace_parent& of) {
  return "00-" + hex_of(of.trace) + '-' + hex_of(of.span) + (of.sampled ? "-01" : "-00");
}

std::string to_hex(const trace_id& id) {
  return hex_of(id);
}

std::string to_hex(const span_id& id) {
  return hex_of(id);
}

bool is_trace_state(std::string_view header) noexcept {
  return !header.empty() && header.size() <= k_trace_state_bytes_max &&
         std::all_of(header.begin(), header.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

trace_id make_trace_id(std::uint64_t one, std::uint64_t other) noexcept {
  trace_id out;
  put(one, out.data());
  put(other == 0 && one == 0 ? 1 : other, out.data() + 8);
  return out;
}

span_id make_span_id(std::uint64_t word) noexcept {
  span_id out;
  put(word == 0 ? 1 : word, out.data());
  return out;
}

}  // namespace weir::gateway::trace
