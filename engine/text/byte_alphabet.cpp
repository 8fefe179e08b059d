#include "engine/text/byte_alphabet.hpp"

#include <array>
#include <cstdint>

#include "engine/text/utf8.hpp"

namespace weir::engine::text {
namespace {

constexpr bool is_printable(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr int k_letters = 256 + 68;  // 68 bytes are not printable

constexpr auto k_byte_of_letter = [] {
  std::array<std::int16_t, k_letters> bytes{};
  bytes.fill(-1);
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    bytes[is_printable(byte) ? byte : next++] = static_cast<std::int16_t>(byte);
  }
  return bytes;
}();

}  // namespace

std::optional<std::string> bytes_of_alphabet(std::string_view written) {
  std::string out;
  while (!written.empty()) {
    const utf8_step step = next_char(written);
    if (step.status != utf8_status::valid || step.code_point >= k_letters) return std::nullopt;
    const int byte = k_byte_of_letter[step.code_point];
    if (byte < 0) return std::nullopt;
    out.push_back(static_cast<char>(byte));
    written.remove_prefix(step.size);
  }
  return out;
}

}  // namespace weir::engine::text
