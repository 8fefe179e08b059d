#include "kernels/machine.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <new>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/machine.cpp"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/features.hpp"
#include "kernels/cpu/vec-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::kernels::cpu::HWY_NAMESPACE {

// Enough sums at once to fill two multiply-add units of a latency of four to five.
constexpr int k_sums = 12;

float read_floats(const float* from, std::int64_t count) {
  const std::int64_t lanes = lane_count();
  vec sum[4];
  for (auto& s : sum) s = hn::Zero(floats());
  for (std::int64_t i = 0; i + 4 * lanes <= count; i += 4 * lanes) {
    HWY_UNROLL(4)
    for (int n = 0; n < 4; ++n) sum[n] = hn::Add(sum[n], hn::LoadU(floats(), from + i + n * lanes));
  }
  return sum_lanes(hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3])));
}

// Floating point operations done, of float32.
double multiply_add(std::int64_t rounds, float* out) {
  vec sum[k_sums];
  for (int i = 0; i < k_sums; ++i) sum[i] = hn::Set(floats(), 1.0F + static_cast<float>(i));
  const vec by = hn::Set(floats(), 0.999F);
  const vec plus = hn::Set(floats(), 0.001F);
  for (std::int64_t r = 0; r < rounds; ++r) {
    HWY_UNROLL(12)
    for (int i = 0; i < k_sums; ++i) sum[i] = hn::MulAdd(sum[i], by, plus);
  }
  vec all = sum[0];
  for (int i = 1; i < k_sums; ++i) all = hn::Add(all, sum[i]);
  *out = sum_lanes(all);
  return 2.0 * static_cast<double>(rounds) * k_sums * static_cast<double>(lane_count());
}

const char* target_name() {
  return hwy::TargetName(HWY_TARGET);
}

}  // namespace weir::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::kernels {

namespace cpu {
HWY_EXPORT(read_floats);
HWY_EXPORT(multiply_add);
HWY_EXPORT(target_name);
}  // namespace cpu

namespace {

using clock = std::chrono::steady_clock;

constexpr std::size_t k_read_bytes = std::size_t{1} << 30;
constexpr int k_read_rounds = 5;
constexpr std::int64_t k_multiply_rounds = 2'000'000;
constexpr int k_repeats = 12;

volatile float g_kept;  // so that no result is thrown away

#if defined(__x86_64__)
// Pairs of bf16 into float32: four operations a lane. Highway 1.0 has no target with this instruction.
__attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16"))) double multiply_add_bf16(std::int64_t rounds,
                                                                                         float* out) {
  constexpr int sums = 12;
  constexpr double lanes = 16;
  const __m512bh by = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5F), _mm512_set1_ps(0.25F));
  __m512 sum[sums];
  for (auto& s : sum) s = _mm512_setzero_ps();
  for (std::int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < sums; ++i) sum[i] = _mm512_dpbf16_ps(sum[i], by, by);
  }
  __m512 all = sum[0];
  for (int i = 1; i < sums; ++i) all = _mm512_add_ps(all, sum[i]);
  float kept[16];
  _mm512_storeu_ps(kept, all);
  *out = kept[0];
  return 4.0 * static_cast<double>(rounds) * sums * lanes;
}

// Fours of bytes into int32: eight operations a lane.
__attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni"))) double multiply_add_int8(std::int64_t rounds,
                                                                                         float* out) {
  constexpr int sums = 12;
  constexpr double lanes = 16;
  const __m512i by = _mm512_set1_epi8(1);
  __m512i sum[sums];
  for (auto& s : sum) s = _mm512_setzero_si512();
  for (std::int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < sums; ++i) sum[i] = _mm512_dpbusd_epi32(sum[i], by, by);
  }
  __m512i all = sum[0];
  for (int i = 1; i < sums; ++i) all = _mm512_add_epi32(all, sum[i]);
  *out = static_cast<float>(_mm512_cvtsi512_si32(all));
  return 8.0 * static_cast<double>(rounds) * sums * lanes;
}
#else
double multiply_add_bf16(std::int64_t, float*) {
  return 0;
}
double multiply_add_int8(std::int64_t, float*) {
  return 0;
}
#endif

double seconds_since(clock::time_point begin) {
  return std::chrono::duration<double>(clock::now() - begin).count();
}

class big_memory final {
 public:
  big_memory()
      : data_(::mmap(nullptr, k_read_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (data_ == MAP_FAILED) throw std::bad_alloc();
    ::madvise(data_, k_read_bytes, MADV_HUGEPAGE);
    std::memset(data_, 1, k_read_bytes);
  }
  ~big_memory() { ::munmap(data_, k_read_bytes); }
  big_memory(const big_memory&) = delete;
  big_memory& operator=(const big_memory&) = delete;
  const float* floats() const { return static_cast<const float*>(data_); }

 private:
  void* data_;
};

double best_read(thread_pool& pool) {
  const big_memory memory;
  constexpr std::int64_t part = 1 << 18;  // floats
  constexpr std::int64_t parts = static_cast<std::int64_t>(k_read_bytes / sizeof(float)) / part;
  double best = 0;
  for (int round = 0; round < k_read_rounds; ++round) {
    const auto begin = clock::now();
    pool.run(parts, 1, [&](std::int64_t first, std::int64_t end, int) {
      g_kept = HWY_DYNAMIC_DISPATCH(cpu::read_floats)(memory.floats() + first * part, (end - first) * part);
    });
    best = std::max(best, static_cast<double>(k_read_bytes) / seconds_since(begin));
  }
  return best;
}

// `work` does operations on registers and says how many. No thread begins before all are there, so that none
// does another one's share while that one wakes.
template <class Work>
double best_rate(thread_pool& pool, Work&& work) {
  double best = 0;
  for (int round = 0; round < k_repeats; ++round) {
    const int threads = pool.thread_count();
    std::atomic<int> there{0};
    std::atomic<double> done{0};
    std::atomic<clock::rep> begun{0};
    pool.run(threads, 1, [&](std::int64_t, std::int64_t, int) {
      if (++there == threads) begun = clock::now().time_since_epoch().count();
      while (begun == 0) hwy::Pause();
      float kept = 0;
      done += work(&kept);
      g_kept = kept;
    });
    best = std::max(best, done / seconds_since(clock::time_point(clock::duration(begun))));
  }
  return best;
}

}  // namespace

machine_limits measure_machine(thread_pool& pool) {
  machine_limits out;
  out.read_bytes_per_s = best_read(pool);
  out.flops_per_s = best_rate(
      pool, [](float* kept) { return HWY_DYNAMIC_DISPATCH(cpu::multiply_add)(k_multiply_rounds, kept); });
  if (cpu::has_bf16_dot()) {
    out.bf16_flops_per_s =
        best_rate(pool, [](float* kept) { return multiply_add_bf16(k_multiply_rounds, kept); });
  }
  if (cpu::has_int8_dot()) {
    out.int8_ops_per_s =
        best_rate(pool, [](float* kept) { return multiply_add_int8(k_multiply_rounds, kept); });
  }
  return out;
}

double peak_of(const machine_limits& machine, dtype weights, activation_format activations) noexcept {
  if (activations == activation_format::float32) return machine.flops_per_s;
  if (weights == dtype::bf16 && machine.bf16_flops_per_s > 0) return machine.bf16_flops_per_s;
  if (grouped(weights) && machine.int8_ops_per_s > 0) return machine.int8_ops_per_s;
  return machine.flops_per_s;
}

const char* instruction_set() noexcept {
  return HWY_DYNAMIC_DISPATCH(cpu::target_name)();
}

}  // namespace weir::kernels
#endif  // HWY_ONCE
