// Fills the index from the store after a restart. Internal to index_store.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "prefix_index/index_database.hpp"
#include "prefix_index/residency_impl.hpp"

namespace weir::prefix_index {

class index_loader final {
 public:
  index_loader(residency_index::impl& index, const std::vector<loaded_replica>& replicas);

  // Records that counted. False: the database is damaged; what was read until then stays.
  bool load(rocksdb::DB& database, std::uint64_t& keys_loaded);

  // Hands the models what they hold by now.
  void finish();

 private:
  struct range {
    std::uint32_t first = 0;
    std::uint32_t end = 0;
  };
  struct target {
    loaded_replica known;
    std::unordered_map<std::uint64_t, range> pages;  // by stamp
    std::vector<std::uint64_t> checkpoints;          // orders
  };

  // The entry as it stands in memory, 0 if it counts no more.
  std::uint64_t revive(const stored_word& word, std::uint32_t depth);
  std::uint64_t revive_simulated(target& t, const stored_word& word, std::uint32_t depth);

  residency_index::impl& index_;
  std::vector<target> targets_;
  std::vector<std::uint32_t> target_of_slot_;  // plus one; 0: none
};

}  // namespace weir::prefix_index
