#include "loadtest/replay/synthetic_prompt.hpp"

#include <algorithm>
#include <string_view>

namespace weir::loadtest::replay {

namespace {

// 32 characters of text that need no escape in JSON; splitting words as prose does.
constexpr std::string_view k_letters = "etaoinshrdlucmfwypvbgkjqxz     .";
constexpr int k_letter_bits = 5;
constexpr int k_letters_drawn = 12;
constexpr std::uint64_t k_id_first = 10'000;
constexpr std::uint64_t k_id_count = 90'000;
// Apart from all block ids of traces that number them from 0.
constexpr std::uint64_t k_filler = 0xf111'0000'0000'0000;

std::uint64_t mix(std::uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

void append_text(std::uint64_t id, std::int64_t tokens, std::string& out) {
  auto left = tokens * k_text_token_bytes;
  for (auto state = mix(id); left > 0; state = mix(state)) {
    auto bits = state;
    const auto count = std::min<std::int64_t>(left, k_letters_drawn);
    for (std::int64_t i = 0; i < count; ++i, bits >>= k_letter_bits)
      out += k_letters[bits % k_letters.size()];
    left -= count;
  }
}

void append_ids(std::uint64_t id, std::int64_t tokens, std::string& out) {
  for (auto state = mix(id); tokens > 0; state = mix(state), --tokens) {
    auto value = k_id_first + state % k_id_count;
    char digits[k_id_digits];
    for (int i = k_id_digits; i-- > 0; value /= 10) digits[i] = static_cast<char>('0' + value % 10);
    out.append(digits, k_id_digits);
    out += ',';
  }
}

}  // namespace

void append_prompt(const trace_request& request, std::uint64_t number, prompt_form form, std::string& out) {
  const auto append = form == prompt_form::text ? append_text : append_ids;
  const auto bytes = form == prompt_form::text ? k_text_token_bytes : k_id_digits + 1;
  out.reserve(out.size() + static_cast<std::size_t>(request.input_tokens * bytes) + 2);
  out += form == prompt_form::text ? '"' : '[';
  auto left = request.input_tokens;
  for (const auto id : request.blocks) {
    const auto tokens = std::min(left, k_trace_block_tokens);
    append(id, tokens, out);
    left -= tokens;
  }
  append(k_filler + number, left, out);
  if (form == prompt_form::ids) out.pop_back();
  out += form == prompt_form::text ? '"' : ']';
}

}  // namespace weir::loadtest::replay
