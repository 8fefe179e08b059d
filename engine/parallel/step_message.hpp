// What rank 0 tells the others to do next, as bytes, and back. A message is never trusted: whatever a
// follower would index with was checked against its own sizes before. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/kv/memory_op.hpp"
#include "engine/result.hpp"
#include "engine/runner/batch.hpp"

namespace weir::engine::parallel {

enum class order : std::uint8_t {
  step,   // copies, then a batch
  norms,  // copies, then the norms of a slot's states
  stop,   // there is no more
};

struct step_message {
  order what = order::stop;
  std::vector<kv::memory_op> copies;
  runner::batch work;     // of a step; may be empty
  std::int32_t slot = 0;  // of norms
};

// What a rank has, and the largest step that it takes.
struct step_limits {
  std::int32_t vocab_size = 1;
  std::int32_t slab_count = 1;
  std::int32_t slab_pages = 1;
  std::int32_t page_tokens = 1;
  std::int32_t context_tokens = 1;
  std::int32_t rows_max = 1;
  std::int32_t sequences_max = 1;

  std::int64_t page_count() const noexcept { return static_cast<std::int64_t>(slab_count) * slab_pages; }
};

std::vector<std::byte> write_stop();
// REQUIRES: of a sequence's row of the block table, what its tokens need is filled.
std::vector<std::byte> write_step(std::span<const kv::memory_op> copies, const runner::batch& work,
                                  std::int32_t page_tokens);
std::vector<std::byte> write_norms(std::span<const kv::memory_op> copies, std::int32_t slot);

// errc::bad_request says what does not hold.
result<step_message> read_message(std::span<const std::byte> bytes, const step_limits& limits);

}  // namespace weir::engine::parallel
