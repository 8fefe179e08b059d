// Engine hashes to 32-bit values in 10 bytes each: a slot keeps 48 bits of the mixed hash, so two of a
// replica's million hashes are taken for one another with a probability of 0.2%; what that costs is a
// misplaced request. Internal to event_source; external lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "prefix_index/kv_event.hpp"
#include "prefix_index/page_buffer.hpp"

namespace weir::prefix_index {

class hash_slots final {
 public:
  // `seed` keeps an engine from choosing hashes that fall together.
  explicit hash_slots(std::uint64_t seed) : seed_(seed) {}

  std::uint32_t find(engine_hash hash) const;          // 0: absent
  void insert(engine_hash hash, std::uint32_t value);  // or overwrite. REQUIRES: value != 0
  void erase(engine_hash hash);
  void clear();

  std::size_t size() const { return count_; }
  std::size_t bytes() const { return memory_.bytes(); }

 private:
  struct slot {
    std::array<std::uint16_t, 5> halves{};  // place (2), rest of the hash, value (2)

    std::uint32_t place() const { return std::uint32_t{halves[1]} << 16 | halves[0]; }
    std::uint32_t value() const { return std::uint32_t{halves[4]} << 16 | halves[3]; }
  };
  static slot make(std::uint64_t mixed_hash, std::uint32_t value);

  std::uint64_t mixed(engine_hash hash) const;
  std::size_t home(const slot& s) const { return std::uint64_t{s.place()} * slots_.size() >> 32; }
  std::size_t locate(const slot& wanted) const;
  void grow();

  const std::uint64_t seed_;
  page_buffer memory_;
  std::span<slot> slots_;  // in memory_; a value of 0: free
  std::size_t count_ = 0;
};

}  // namespace weir::prefix_index
