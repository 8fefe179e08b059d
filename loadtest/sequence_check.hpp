// Whether the mock's numbered tokens (" tok0", " tok1", ..., padded with dots) arrive complete and in order.
// Pure; one stream, one thread.
#pragma once

#include <cstdint>
#include <string_view>

namespace weir::loadtest {

class sequence_check final {
 public:
  void take(std::string_view text);  // of an event: whole tokens

  // Tokens of `expected` that never came, and texts that are no token.
  std::int64_t lost(std::int64_t expected) const;

  // Tokens that came behind a later one, or again.
  std::int64_t reordered() const noexcept { return reordered_; }

 private:
  std::int64_t next_ = 0;
  std::int64_t seen_ = 0;
  std::int64_t reordered_ = 0;
  std::int64_t strange_ = 0;
};

}  // namespace weir::loadtest
