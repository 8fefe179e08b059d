#include "kernels/timing.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <vector>

namespace weir::kernels {

namespace {

template <class A>
struct target {
  const kernel_table<A>* inner = nullptr;
  op_times* into = nullptr;
};

template <class A>
thread_local target<A> t_target;

std::int64_t now_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

template <class A, auto Operation, op Which, class Params>
void timed(const Params& p, const context& ctx) {
  const target<A> to = t_target<A>;
  if (to.into == nullptr) return (to.inner->*Operation)(p, ctx);
  const std::int64_t begin = now_ns();
  (to.inner->*Operation)(p, ctx);
  to.into->ns[static_cast<std::size_t>(Which)] += now_ns() - begin;
  ++to.into->calls[static_cast<std::size_t>(Which)];
}

template <class A>
void timed_router(const router_params<A>& p, const context& ctx) {
  timed<A, &kernel_table<A>::router, op::router>(p, ctx);
  op_times* into = t_target<A>.into;
  if (into == nullptr) return;
  const auto count = static_cast<std::size_t>(p.rows) * static_cast<std::size_t>(p.per_token);
  into->experts_read += count_experts({p.ids, count}, p.experts);
}

}  // namespace

std::string_view to_text(op which) noexcept {
  constexpr std::array<std::string_view, k_ops> names{
      "gemm",     "rmsnorm",    "l2norm",      "embed",        "short_conv", "kda_gate",
      "kda",      "gated_norm", "mla_store",   "mla",          "router",     "experts",
      "silu_mul", "situ_mul",   "sigmoid_mul", "residual_mix", "gather",     "add"};
  return names[static_cast<std::size_t>(which)];
}

std::int64_t op_times::total_ns() const noexcept {
  return std::accumulate(ns.begin(), ns.end(), std::int64_t{0});
}

std::int64_t count_experts(std::span<const std::int32_t> ids, std::int32_t experts) {
  std::vector<bool> seen(static_cast<std::size_t>(experts));
  for (const std::int32_t id : ids) seen[static_cast<std::size_t>(id)] = true;
  return std::count(seen.begin(), seen.end(), true);
}

template <class A>
timing_scope<A>::timing_scope(const kernel_table<A>& inner, op_times* into) noexcept {
  t_target<A> = {&inner, into};
}

template <class A>
timing_scope<A>::~timing_scope() {
  t_target<A> = {};
}

template <class A>
kernel_table<A> make_timed_table(const kernel_table<A>& inner) {
  using table = kernel_table<A>;
  table out = inner;
  out.gemm = timed<A, &table::gemm, op::gemm>;
  out.rmsnorm = timed<A, &table::rmsnorm, op::rmsnorm>;
  out.l2norm = timed<A, &table::l2norm, op::l2norm>;
  out.embed = timed<A, &table::embed, op::embed>;
  out.short_conv = timed<A, &table::short_conv, op::short_conv>;
  out.kda_gate = timed<A, &table::kda_gate, op::kda_gate>;
  out.kda = timed<A, &table::kda, op::kda>;
  out.gated_norm = timed<A, &table::gated_norm, op::gated_norm>;
  out.mla_store = timed<A, &table::mla_store, op::mla_store>;
  out.mla = timed<A, &table::mla, op::mla>;
  out.router = timed_router<A>;
  out.experts = timed<A, &table::experts, op::experts>;
  out.silu_mul = timed<A, &table::silu_mul, op::silu_mul>;
  out.situ_mul = timed<A, &table::situ_mul, op::situ_mul>;
  out.sigmoid_mul = timed<A, &table::sigmoid_mul, op::sigmoid_mul>;
  out.residual_mix = timed<A, &table::residual_mix, op::residual_mix>;
  out.gather = timed<A, &table::gather, op::gather>;
  out.add = timed<A, &table::add, op::add>;
  return out;
}

template class timing_scope<float>;
template class timing_scope<double>;
template kernel_table<float> make_timed_table(const kernel_table<float>&);
template kernel_table<double> make_timed_table(const kernel_table<double>&);

}  // namespace weir::kernels
