// Token ids to UTF-8 text, incrementally: bytes of a character that is not complete yet are held back.
// One sequence, one thread.
#pragma once

#include <cstdint>
#include <string>

#include "engine/text/tokenizer.hpp"

namespace weir::engine::text {

class detokenizer final {
 public:
  // REQUIRES: the tokenizer outlives this object.
  explicit detokenizer(const tokenizer& tok) : tok_(&tok) {}

  // Text that became complete with this token: always valid UTF-8; bytes that can never form a character
  // become U+FFFD.
  std::string push(std::int32_t id);

  // What is still held back at the end, as U+FFFD where incomplete.
  std::string finish();

 private:
  const tokenizer* tok_;
  std::string held_;  // at most 3 bytes: a proper prefix of one character
};

}  // namespace weir::engine::text
