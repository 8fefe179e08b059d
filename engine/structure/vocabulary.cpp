#include "engine/structure/vocabulary.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "engine/text/token_table.hpp"
#include "engine/text/utf8.hpp"

namespace weir::engine::structure {

namespace {

constexpr std::uint32_t k_plain_characters_max = 32;
// Work of one pass: some tenths of a second, and only with a grammar made for it.
constexpr std::size_t k_pass_work_max = 1 << 22;

// Whole characters, none of which is escaped in JSON, and no more than k_plain_characters_max.
bool is_plain(std::string_view bytes) {
  for (std::uint32_t count = 0; !bytes.empty(); ++count) {
    const auto step = text::next_char(bytes);
    if (step.status != text::utf8_status::valid || count == k_plain_characters_max) return false;
    if (step.code_point < 0x20 || step.code_point == '"' || step.code_point == '\\') return false;
    bytes.remove_prefix(step.size);
  }
  return true;
}

bool is_utf8_byte(int b) {
  return b < 0xC0 || (b >= 0xC2 && b <= 0xF4);
}

}  // namespace

vocabulary::trie vocabulary::make_trie(std::vector<std::pair<std::string_view, std::int32_t>> tokens) {
  std::sort(tokens.begin(), tokens.end());
  trie out;
  std::vector<std::uint32_t> open;  // nodes of the bytes read so far
  const auto close_to = [&](std::size_t depth) {
    for (; open.size() > depth; open.pop_back())
      out[open.back()].end = static_cast<std::uint32_t>(out.size());
  };
  std::string_view before;
  for (const auto& [bytes, token] : tokens) {
    const auto shared = std::mismatch(before.begin(), before.end(), bytes.begin(), bytes.end()).first;
    close_to(static_cast<std::size_t>(shared - before.begin()));
    for (std::size_t i = open.size(); i < bytes.size(); ++i) {
      open.push_back(static_cast<std::uint32_t>(out.size()));
      out.push_back({0, -1, static_cast<std::uint16_t>(i + 1), static_cast<std::uint8_t>(bytes[i])});
    }
    if (out[open.back()].token < 0) out[open.back()].token = token;
    before = bytes;
  }
  close_to(0);
  return out;
}

result<std::shared_ptr<const vocabulary>> vocabulary::build(std::shared_ptr<const text::tokenizer> tok) {
  std::shared_ptr<vocabulary> out(new vocabulary);
  std::vector<std::pair<std::string_view, std::int32_t>> plain, others;
  std::array<bool, 256> single{};
  for (std::int32_t id = 0; id < tok->vocab_size(); ++id) {
    const std::string_view bytes = tok->is_special(id) ? std::string_view() : tok->token_bytes(id);
    if (bytes.empty() || bytes.size() > text::k_token_bytes_max) continue;
    if (bytes.size() == 1) single[static_cast<std::uint8_t>(bytes[0])] = true;
    (is_plain(bytes) ? plain : others).emplace_back(bytes, id);
    if (is_plain(bytes)) insert(out->plain_mask_, id);
  }
  for (int b = 0; b < 256; ++b) {
    if (is_utf8_byte(b) && !single[static_cast<std::size_t>(b)]) {
      return fail(errc::unsupported, "the vocabulary has no token of the single byte " + std::to_string(b));
    }
  }
  out->plain_ = make_trie(std::move(plain));
  out->others_ = make_trie(std::move(others));
  out->tokenizer_ = std::move(tok);
  return out;
}

std::string_view vocabulary::bytes(std::int32_t token) const noexcept {
  return tokenizer_->is_special(token) ? std::string_view() : tokenizer_->token_bytes(token);
}

bool vocabulary::walk(const trie& nodes, automaton& rules, place_id at, token_mask& out) {
  const std::size_t limit = rules.work() + k_pass_work_max;
  std::array<place_id, text::k_token_bytes_max + 1> places;
  places[0] = at;
  for (std::uint32_t i = 0; i < nodes.size();) {
    const trie_node& n = nodes[i];
    const place_id here = rules.step(places[n.depth - 1U], n.byte);
    if (here == k_dead) {
      i = n.end;
      continue;
    }
    places[n.depth] = here;
    if (n.token >= 0) insert(out, n.token);
    ++i;
    if (rules.work() > limit || rules.overloaded()) return false;
  }
  return true;
}

bool vocabulary::allowed(automaton& rules, place_id at, token_mask& out) const {
  if (!rules.takes_plain(at, k_plain_characters_max))
    return walk(plain_, rules, at, out) && walk(others_, rules, at, out);
  if (out.size() < plain_mask_.size()) out.resize(plain_mask_.size());
  for (std::size_t i = 0; i < plain_mask_.size(); ++i) out[i] |= plain_mask_[i];
  return walk(others_, rules, at, out);
}

}  // namespace weir::engine::structure
