// One sequence's way through its constraint, if it has one: which tokens the sampler may draw, ends of the
// sequence included where the answer may end. One sequence, one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "engine/constraint.hpp"

namespace weir::engine::sample {

class guide final {
 public:
  // Null: every token may come.
  explicit guide(const std::shared_ptr<const token_constraint>& constraint)
      : matcher_(constraint ? constraint->start() : nullptr) {}

  // Finds the tokens that may come next. False where the constraint cannot be followed any further.
  bool prepare(std::span<const std::int32_t> ends) {
    if (matcher_ == nullptr) return true;
    const auto allowed = matcher_->allowed();
    if (allowed == nullptr) return false;
    mask_ = *allowed;
    const bool complete = matcher_->is_complete();
    for (const std::int32_t end : ends) complete ? insert(mask_, end) : erase(mask_, end);
    return true;
  }

  // Of the last prepare(); null: every token.
  const token_mask* mask() const noexcept { return matcher_ ? &mask_ : nullptr; }

  // Goes on behind a token that does not end the sequence. False: it was not allowed.
  bool accept(std::int32_t token) { return matcher_ == nullptr || matcher_->accept(token); }
  bool must_end() const noexcept { return matcher_ != nullptr && matcher_->must_end(); }

 private:
  std::unique_ptr<token_matcher> matcher_;
  token_mask mask_;
};

}  // namespace weir::engine::sample
