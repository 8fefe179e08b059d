// What a sequence may generate, token by token: the engine asks which tokens may come next and tells which
// one came. What the tokens mean is known to those who made the constraint alone (engine/structure).
//
// Threads: a constraint is immutable to its users and shared by any number of sequences and threads; a
// matcher belongs to one sequence, one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace weir::engine {

// A bit for each token id, 64 to a word; ids behind the last word are not in it.
using token_mask = std::vector<std::uint64_t>;

inline bool contains(const token_mask& mask, std::int32_t token) noexcept {
  const auto at = static_cast<std::size_t>(token);
  return at / 64 < mask.size() && (mask[at / 64] >> (at % 64) & 1) != 0;
}
inline void insert(token_mask& mask, std::int32_t token) {
  const auto at = static_cast<std::size_t>(token);
  if (at / 64 >= mask.size()) mask.resize(at / 64 + 1);
  mask[at / 64] |= std::uint64_t{1} << (at % 64);
}

inline void erase(token_mask& mask, std::int32_t token) noexcept {
  const auto at = static_cast<std::size_t>(token);
  if (at / 64 < mask.size()) mask[at / 64] &= ~(std::uint64_t{1} << (at % 64));
}

class token_matcher {
 public:
  virtual ~token_matcher() = default;

  // The tokens that may come next, but for those that end the sequence. Null where the constraint cannot be
  // followed any further: the sequence failed.
  virtual std::shared_ptr<const token_mask> allowed() = 0;
  // Goes on behind this token. False: it was not allowed.
  virtual bool accept(std::int32_t token) = 0;

  virtual bool is_complete() const noexcept = 0;  // the sequence may end here
  virtual bool must_end() const noexcept = 0;     // and nothing can follow
};

class token_constraint {
 public:
  virtual ~token_constraint() = default;
  virtual std::unique_ptr<token_matcher> start() const = 0;
};

}  // namespace weir::engine
