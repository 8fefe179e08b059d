// Reference-counted indices of equal-sized places: MLA pages, and KDA state slots. Holds no memory itself.
// Invariants: used() + free == count(); an index is handed out only when its count is zero. One thread (the
// worker's).
#pragma once

#include <cstdint>
#include <vector>

namespace weir::engine::kv {

class index_pool final {
 public:
  explicit index_pool(std::int32_t count);

  std::int32_t count() const noexcept { return static_cast<std::int32_t>(references_.size()); }
  std::int32_t used() const noexcept { return count() - available(); }
  std::int32_t available() const noexcept { return static_cast<std::int32_t>(free_.size()); }

  // One reference to an unused index. REQUIRES: available() > 0.
  std::int32_t acquire();

  // One more reference. REQUIRES: the index is in use.
  void retain(std::int32_t index);

  // Drops a reference; the last one frees the index. REQUIRES: the index is in use.
  void release(std::int32_t index);

 private:
  std::vector<std::int32_t> references_;
  std::vector<std::int32_t> free_;  // taken from the back: the lowest index first
};

}  // namespace weir::engine::kv
