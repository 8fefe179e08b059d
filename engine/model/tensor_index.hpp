// Where every tensor of a checkpoint lies, by name. Made for half a million of them: names share one piece of
// text, equal shapes share one entry, and what remains is sorted, so that a tensor costs its name and 24
// bytes.
//
// Life: reserve, add every name, seal, place each one, then find. Immutable from then on; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/safetensors.hpp"

namespace weir::engine::model {

class tensor_index final {
 public:
  struct place {
    std::uint16_t shard;
    std::uint64_t offset;  // of its data in the shard's file
    std::uint64_t bytes;
    const std::string& dtype;
    const std::vector<std::int64_t>& shape;
  };

  // Exactly what will be added, so that nothing is allocated beyond it.
  void reserve(std::size_t tensors, std::size_t name_bytes);

  // REQUIRES: not sealed; a name of at most k_name_bytes_max, all of them together below 4 GiB.
  void add(std::string_view name, std::uint16_t shard);

  // Gives a name that was added twice, if there is one.
  std::optional<std::string> seal();

  // What the shard itself says of a tensor. One that was not added for this shard is left alone.
  void put(std::string_view name, std::uint16_t shard, const tensor_view& view, std::uint64_t offset);

  // The first name, in order, that was never placed.
  std::optional<std::string> first_unplaced() const;

  std::optional<place> find(std::string_view name) const;

  std::size_t size() const noexcept { return entries_.size(); }

  // Memory held, the shared shapes aside.
  std::size_t memory_bytes() const noexcept {
    return names_.capacity() + entries_.capacity() * sizeof(entry);
  }

 private:
  static constexpr std::uint32_t k_unplaced = UINT32_MAX;

  struct entry {
    std::uint64_t offset = 0;
    std::uint32_t name = 0;  // first byte in names_
    std::uint32_t kind = k_unplaced;
    std::uint16_t name_bytes = 0;
    std::uint16_t shard = 0;
  };
  static_assert(sizeof(entry) == 24);

  struct kind {
    std::string dtype;
    std::vector<std::int64_t> shape;
    std::uint64_t bytes = 0;
  };
  using kind_key = std::pair<std::string, std::vector<std::int64_t>>;

  std::string_view name_of(const entry& e) const {
    return std::string_view(names_).substr(e.name, e.name_bytes);
  }
  const entry* locate(std::string_view name) const;

  std::string names_;
  std::vector<entry> entries_;  // by name once sealed
  std::vector<kind> kinds_;
  std::map<kind_key, std::uint32_t> kind_ids_;
};

}  // namespace weir::engine::model
