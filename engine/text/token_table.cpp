#include "engine/text/token_table.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

namespace weir::engine::text {
namespace {

// One bit of a filter answers a lookup in vain with a probability of tokens / bits.
constexpr std::size_t k_filter_bits_per_token = 8;

std::size_t slots_for(std::size_t count) {
  return std::bit_ceil(count + count / 2 + 2);
}

}  // namespace

result<token_table> token_table::build(std::span<const std::string> tokens, bool holes) {
  if (tokens.size() > static_cast<std::size_t>(k_tokens_max)) {
    return fail(errc::bad_model, "more than " + std::to_string(k_tokens_max) + " tokens");
  }
  token_table out;
  out.offsets_.push_back(0);
  std::size_t short_count = 0;
  for (const auto& token : tokens) {
    if ((token.empty() && !holes) || token.size() > k_token_bytes_max) {
      return fail(errc::bad_model, "token " + std::to_string(out.size()) + " has " +
                                       std::to_string(token.size()) + " bytes; allowed are 1 to " +
                                       std::to_string(k_token_bytes_max));
    }
    out.blob_ += token;
    out.offsets_.push_back(static_cast<std::uint32_t>(out.blob_.size()));
    if (token.size() < 8) ++short_count;
  }
  out.short_.assign(slots_for(short_count), short_slot{0, -1});
  out.long_.assign(slots_for(tokens.size() - short_count), long_slot{0, 0, 0, -1});
  const std::size_t bits = std::bit_ceil(std::max<std::size_t>(64, tokens.size() * k_filter_bits_per_token));
  out.filter_.assign(bits / 64, 0);
  out.filter_mask_ = bits - 1;
  for (std::int32_t id = 0; id < out.size(); ++id) {
    const std::string_view bytes = out.bytes(id);
    if (bytes.empty()) continue;
    if (out.find(bytes) >= 0) {
      return fail(errc::bad_model, "token " + std::to_string(id) + " repeats an earlier one");
    }
    out.insert(id);
  }
  return out;
}

void token_table::insert(std::int32_t id) {
  const std::string_view b = bytes(id);
  const std::uint64_t h = hash(b);
  filter_[(h & filter_mask_) >> 6] |= 1ULL << (h & 63);
  if (b.size() < 8) {
    std::size_t i = short_at(h);
    while (short_[i].key != 0) i = (i + 1) & (short_.size() - 1);
    short_[i] = {short_key(b), id};
    return;
  }
  std::size_t i = long_at(h);
  while (long_[i].size != 0) i = (i + 1) & (long_.size() - 1);
  long_[i] = {word(b.data()), word(b.data() + b.size() - 8), static_cast<std::uint32_t>(b.size()), id};
}

std::int32_t token_table::find(const prepared& p) const noexcept {
  assert(!p.bytes.empty());
  if (p.bytes.size() < 8) {
    const std::uint64_t key = short_key(p.bytes);
    for (std::size_t i = short_at(p.hash);; i = (i + 1) & (short_.size() - 1)) {
      if (short_[i].key == key) return short_[i].id;
      if (short_[i].key == 0) return -1;
    }
  }
  const std::uint64_t first = word(p.bytes.data()), last = word(p.bytes.data() + p.bytes.size() - 8);
  for (std::size_t i = long_at(p.hash);; i = (i + 1) & (long_.size() - 1)) {
    const long_slot& s = long_[i];
    if (s.size == 0) return -1;
    if (s.first != first || s.last != last || s.size != p.bytes.size()) continue;
    if (s.size <= 16 || bytes(s.id) == p.bytes) return s.id;
  }
}

}  // namespace weir::engine::text
