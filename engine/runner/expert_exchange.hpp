// Rows of activations on their way to the ranks that hold their experts, and back.
//
// Each rank has some rows with the experts chosen for them. They go, once for each choice, to the rank of
// that expert, which computes them and sends them back weighted; at home a row's results are added in the
// order in which its experts were chosen, as without ranks. One thread, the runner's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/parallel/communicator.hpp"
#include "engine/parallel/split.hpp"
#include "engine/runner/device.hpp"
#include "kernels/table.hpp"

namespace weir::engine::runner {

// Who sends what to whom, of one step of one layer. A pick is a row's choice of one expert.
struct exchange_plan {
  std::vector<std::int32_t> sent_rows;  // [sent] of one's own rows, by rank, then in the order of the picks
  std::vector<std::int64_t> sent;       // [ranks] picks
  std::vector<std::int64_t> received;   // [ranks]
  std::vector<std::int32_t> experts;    // [received] of this rank's
  std::vector<std::int32_t> picks;      // [received] in ids
  std::vector<std::int32_t> places;     // [k, own rows] where each pick's result is among what comes back
};

// `ids` are all rows' [T, k], the same on every rank; `experts` of the whole model.
exchange_plan plan_exchange(std::span<const std::int32_t> ids, std::int32_t per_token, std::int32_t experts,
                            const parallel::shard& part);

// All of the rank's own; the experts' ids and weights of its own rows are there, the others' are fetched.
template <class A>
struct exchanged_experts {
  const A* x;         // [own rows, D]
  A* y;               // [own rows, D]
  std::int32_t* ids;  // [T, k]
  A* weights;         // [T, k]
  std::int32_t rows;  // T
  // Of this rank's experts; x, y, ids, weights, rows and per_token are filled in.
  kernels::experts_params<A> experts;
  std::int32_t per_token;
  std::int32_t experts_in_all;
};

template <class A>
class expert_exchange final {
 public:
  expert_exchange(device& where, parallel::communicator& ranks, const parallel::shard& part)
      : device_(where), ranks_(ranks), part_(part) {}

  // Throws parallel::rank_lost.
  void run(const exchanged_experts<A>& p, const kernels::kernel_table<A>& table);

  // Each rank's own rows of [rows, dim], which lie in their place, become known to all.
  template <class T>
  void share_rows(T* all, std::int32_t rows, std::int64_t dim);

 private:
  const std::int32_t* place(const std::vector<std::int32_t>& numbers, scratch<std::int32_t>& to);

  device& device_;
  parallel::communicator& ranks_;
  parallel::shard part_;
  std::vector<std::int32_t> ids_;
  scratch<std::int32_t> rows_{device_}, experts_{device_}, picks_{device_}, places_{device_};
  scratch<A> out_{device_}, in_{device_}, weights_{device_}, done_{device_}, back_{device_}, one_{device_};
  scratch<std::byte> workspace_{device_};
};

extern template class expert_exchange<double>;
extern template class expert_exchange<float>;

}  // namespace weir::engine::runner
