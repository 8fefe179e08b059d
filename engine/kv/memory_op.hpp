// A copy inside the engine's one pool, to be done in the order in which the copies were decided and before
// the next step runs. Plain values.
#pragma once

#include <cstdint>

namespace weir::engine::kv {

struct memory_op {
  enum class kind : std::uint8_t {
    copy_state,  // slab to slab
    copy_page,   // place to place
  };
  kind what;
  std::int32_t from;
  std::int32_t to;

  friend bool operator==(const memory_op&, const memory_op&) = default;
};

}  // namespace weir::engine::kv
