// How long each operation of a table took: a table in front of another that notes it. For benchmarks and for
// monitoring; the times of a step add up to nearly all of it.
//
// A timing_scope says where the calls of its thread are noted; without one they only run. Each thread has its
// own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/table.hpp"

namespace weir::kernels {

enum class op : std::uint8_t {
  gemm,
  rmsnorm,
  l2norm,
  embed,
  short_conv,
  kda_gate,
  kda,
  gated_norm,
  mla_store,
  mla,
  router,
  experts,
  silu_mul,
  situ_mul,
  sigmoid_mul,
  residual_mix,
  gather,
  add,
};
inline constexpr std::size_t k_ops = 18;

std::string_view to_text(op which) noexcept;

struct op_times {
  std::array<std::int64_t, k_ops> ns{};
  std::array<std::int64_t, k_ops> calls{};
  std::int64_t experts_read = 0;  // different ones of each call, added up: whose weights were read

  std::int64_t total_ns() const noexcept;
};

// How many different experts tokens were sent to.
std::int64_t count_experts(std::span<const std::int32_t> ids, std::int32_t experts);

template <class A>
class timing_scope final {
 public:
  // Both outlive the scope. `into` null: nothing is noted.
  timing_scope(const kernel_table<A>& inner, op_times* into) noexcept;
  ~timing_scope();
  timing_scope(const timing_scope&) = delete;
  timing_scope& operator=(const timing_scope&) = delete;
};

// Its operations are those of the thread's scope. REQUIRES: a scope around every call.
template <class A>
kernel_table<A> make_timed_table(const kernel_table<A>& inner);

extern template class timing_scope<float>;
extern template class timing_scope<double>;
extern template kernel_table<float> make_timed_table(const kernel_table<float>&);
extern template kernel_table<double> make_timed_table(const kernel_table<double>&);

}  // namespace weir::kernels
