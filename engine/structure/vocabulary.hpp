// A vocabulary's tokens by their bytes, laid out so that all that an automaton allows are found in one pass:
// tokens which begin alike are walked once, and a beginning that is not allowed drops everything behind it.
// Tokens of plain text (whole characters that stand in a JSON string as they are) lie apart, as most places
// inside of strings allow all of them.
// Immutable; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/constraint.hpp"
#include "engine/result.hpp"
#include "engine/structure/automaton.hpp"
#include "engine/text/tokenizer.hpp"

namespace weir::engine::structure {

class vocabulary final {
 public:
  // errc::unsupported where the tokens cannot spell every text. Special tokens are not part of it.
  static result<std::shared_ptr<const vocabulary>> build(std::shared_ptr<const text::tokenizer> tok);

  // Adds the tokens that the automaton allows at this place. False: it took too long.
  bool allowed(automaton& rules, place_id at, token_mask& out) const;

  // Bytes of a token that is no special one; empty for all others.
  std::string_view bytes(std::int32_t token) const noexcept;

 private:
  struct trie_node {
    std::uint32_t end;    // of the nodes behind this one that begin with its bytes
    std::int32_t token;   // -1: none ends here
    std::uint16_t depth;  // bytes, this node's among them
    std::uint8_t byte;
  };
  using trie = std::vector<trie_node>;  // each node before those that begin with it

  vocabulary() = default;
  static trie make_trie(std::vector<std::pair<std::string_view, std::int32_t>> tokens);
  static bool walk(const trie& nodes, automaton& rules, place_id at, token_mask& out);

  std::shared_ptr<const text::tokenizer> tokenizer_;
  trie plain_;
  trie others_;
  token_mask plain_mask_;
};

}  // namespace weir::engine::structure
