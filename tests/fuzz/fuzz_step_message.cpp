// A follower's reading of rank 0's messages: whatever the bytes, what it returns can be indexed with, and
// goes out again as it came.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "engine/parallel/step_message.hpp"

namespace {

using namespace weir::engine;

constexpr parallel::step_limits k_limits{.vocab_size = 300,
                                         .slab_count = 7,
                                         .slab_pages = 5,
                                         .page_tokens = 8,
                                         .context_tokens = 200,
                                         .rows_max = 64,
                                         .sequences_max = 16};

void need(bool holds) {
  if (!holds) std::abort();
}

void check_batch(const runner::batch& work) {
  need(work.row_count() <= k_limits.rows_max && work.row_sequence.size() == work.tokens.size());
  need(work.block_table.size() == work.sequences.size() * static_cast<std::size_t>(work.table_stride));
  for (const std::int32_t token : work.tokens) need(token >= 0 && token < k_limits.vocab_size);
  for (const std::int32_t page : work.block_table) need(page >= 0 && page < k_limits.page_count());
  for (const std::int32_t row : work.logit_rows) need(row >= 0 && row < work.row_count());
  std::int32_t row = 0;
  for (const auto& seq : work.sequences) {
    need(seq.row == row && seq.count > 0 && seq.position >= 0 && seq.slot >= 0 &&
         seq.slot < k_limits.slab_count);
    need(seq.position + seq.count <= k_limits.context_tokens);
    need((seq.position + seq.count - 1) / k_limits.page_tokens < work.table_stride);
    row += seq.count;
  }
  need(row == work.row_count());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto message = parallel::read_message(bytes, k_limits);
  if (!message) return 0;
  for (const auto& op : message->copies) {
    const std::int64_t places =
        op.what == kv::memory_op::kind::copy_state ? k_limits.slab_count : k_limits.page_count();
    need(op.from >= 0 && op.from < places && op.to >= 0 && op.to < places);
  }
  if (message->what != parallel::order::step) return 0;
  check_batch(message->work);
  const auto again = parallel::write_step(message->copies, message->work, k_limits.page_tokens);
  need(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
  return 0;
}
