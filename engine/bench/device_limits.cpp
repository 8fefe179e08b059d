#include "engine/bench/device_limits.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

#include "engine/runner/backend.hpp"

namespace weir::engine::bench {

namespace {

constexpr std::int64_t k_copied_bytes = std::int64_t{1} << 30;  // many times any device's cache
constexpr std::int32_t k_side = 8192;                           // of a square product: 1.1 TFLOP
constexpr int k_rounds = 5;

// Seconds of the quickest round.
template <class Work>
double quickest(runner::device& on, Work&& work) {
  using clock = std::chrono::steady_clock;
  double best = 0;
  for (int round = 0; round <= k_rounds; ++round) {
    const auto begin = clock::now();
    work();
    on.wait();
    const std::chrono::duration<double> took = clock::now() - begin;
    if (round == 0) continue;  // libraries and clocks warm up
    best = round == 1 ? took.count() : std::min(best, took.count());
  }
  return best;
}

double bytes_per_s(runner::device& on) {
  runner::scratch<std::byte> from(on);
  runner::scratch<std::byte> to(on);
  from.need(k_copied_bytes);
  to.need(k_copied_bytes);
  const auto bytes = static_cast<std::size_t>(k_copied_bytes);
  return 2.0 * static_cast<double>(bytes) / quickest(on, [&] { on.copy(to.data(), from.data(), bytes); });
}

double flops_per_s(runner::device& on, const kernels::kernel_table<float>& table, kernels::dtype type) {
  const std::int64_t cells = static_cast<std::int64_t>(k_side) * k_side;
  runner::scratch<float> a(on);
  runner::scratch<float> c(on);
  runner::scratch<std::byte> b(on);
  runner::scratch<std::byte> workspace(on);
  const std::vector<float> ones(static_cast<std::size_t>(cells), 1.0F);
  on.upload(a.need(cells), ones.data(), ones.size() * sizeof(float));
  on.upload(b.need(cells * static_cast<std::int64_t>(sizeof(float))), ones.data(),
            ones.size() * sizeof(float));
  const kernels::gemm_params<float> p{a.data(), {b.data(), type, k_side, k_side}, c.need(cells), k_side};
  const std::size_t bytes = table.gemm_workspace_bytes(p, on.thread_count());
  std::byte* const space = workspace.need(static_cast<std::int64_t>(bytes));
  const double seconds = quickest(on, [&] { table.gemm(p, on.context(space, bytes)); });
  return 2.0 * static_cast<double>(cells) * k_side / seconds;
}

}  // namespace

result<kernels::machine_limits> measure_device(int index) {
  const runner::device_backend* const cuda = runner::cuda_backend();
  if (cuda == nullptr) return fail(errc::unsupported, "this program was built without CUDA");
  auto opened = cuda->open(index);
  if (!opened) return std::unexpected(opened.error());
  try {
    kernels::machine_limits out;
    out.read_bytes_per_s = bytes_per_s(**opened);
    out.bf16_flops_per_s =
        flops_per_s(**opened, cuda->table(kernels::activation_format::narrow), kernels::dtype::bf16);
    out.flops_per_s =
        flops_per_s(**opened, cuda->table(kernels::activation_format::float32), kernels::dtype::f32);
    out.int8_ops_per_s = out.bf16_flops_per_s;  // grouped formats are widened to bf16
    return out;
  } catch (const std::bad_alloc&) {
    return fail(errc::io, "not enough free memory on the device to measure it");
  } catch (const std::runtime_error& fault) {
    return fail(errc::io, fault.what());
  }
}

}  // namespace weir::engine::bench
