#include "gateway/prompt/prompt_memory.hpp"

#include <cstring>
#include <utility>

namespace weir::gateway {

using prefix_index::block_key;

namespace {

// The nodes of list and map, their pointers, a bucket, and the allocator's headers of three blocks.
constexpr std::size_t k_entry_overhead_bytes = 128;

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);  // pointers to nothing may be null
}

}  // namespace

std::size_t prompt_memory::entry::bytes() const {
  return sizeof(entry) + k_entry_overhead_bytes + key_count * sizeof(block_key) +
         unfinished_count * sizeof(std::int32_t);
}

prompt_memory::prompt_memory(std::size_t bytes_max) : shard_bytes_max_(bytes_max / k_shards) {}

bool prompt_memory::recall(const block_key& chunk, std::vector<block_key>& keys, keying_state& state) {
  shard& s = shard_of(chunk);
  const std::lock_guard lock(s.mutex);
  const auto found = s.by_chunk.find(chunk);
  if (found == s.by_chunk.end()) return false;
  s.by_use.splice(s.by_use.begin(), s.by_use, found->second);
  const entry& e = *found->second;
  const std::size_t key_bytes = e.key_count * sizeof(block_key);
  const std::size_t first = keys.size();
  keys.resize(first + e.key_count);
  copy_bytes(keys.data() + first, e.data.get(), key_bytes);
  state.unfinished.resize(e.unfinished_count);
  copy_bytes(state.unfinished.data(), e.data.get() + key_bytes, e.unfinished_count * sizeof(std::int32_t));
  state.tokens = e.tokens;
  state.text = e.text;
  return true;
}

void prompt_memory::remember(const block_key& chunk, std::span<const block_key> keys,
                             const keying_state& state) {
  entry made{
      chunk,
      state.tokens,
      state.text,
      static_cast<std::uint32_t>(keys.size()),
      static_cast<std::uint32_t>(state.unfinished.size()),
      std::make_unique<std::byte[]>(keys.size_bytes() + state.unfinished.size() * sizeof(std::int32_t))};
  const std::size_t bytes = made.bytes();
  if (bytes > shard_bytes_max_) return;
  copy_bytes(made.data.get(), keys.data(), keys.size_bytes());
  copy_bytes(made.data.get() + keys.size_bytes(), state.unfinished.data(),
             state.unfinished.size() * sizeof(std::int32_t));
  shard& s = shard_of(chunk);
  const std::lock_guard lock(s.mutex);
  if (s.by_chunk.contains(chunk)) return;
  while (s.bytes + bytes > shard_bytes_max_) {
    s.bytes -= s.by_use.back().bytes();
    s.by_chunk.erase(s.by_use.back().chunk);
    s.by_use.pop_back();
  }
  s.by_use.push_front(std::move(made));
  s.by_chunk.emplace(chunk, s.by_use.begin());
  s.bytes += bytes;
}

std::size_t prompt_memory::bytes() const {
  std::size_t sum = 0;
  for (const shard& s : shards_) {
    const std::lock_guard lock(s.mutex);
    sum += s.bytes;
  }
  return sum;
}

}  // namespace weir::gateway
