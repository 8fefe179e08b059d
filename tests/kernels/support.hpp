// Inputs and comparison for kernel tests: the same values go to the double reference and to the float32
// backend.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include <hwy/highway.h>

#include "kernels/parallel.hpp"
#include "kernels/table.hpp"

namespace weir::tests {

// The instruction sets that this machine runs, each of which has its own body of every operation.
inline std::vector<std::int64_t> instruction_sets() {
  hwy::SetSupportedTargetsForTest(0);
  const std::int64_t supported = hwy::SupportedTargets();
  std::vector<std::int64_t> out;
  for (std::int64_t bits = supported; bits != 0; bits &= bits - 1) out.push_back(bits & -bits);
  return out;
}

// Pins the CPU backend to one of them for a scope.
class pinned_instruction_set final {
 public:
  explicit pinned_instruction_set(std::int64_t target) { choose(target); }
  ~pinned_instruction_set() { choose(0); }
  pinned_instruction_set(const pinned_instruction_set&) = delete;
  pinned_instruction_set& operator=(const pinned_instruction_set&) = delete;

 private:
  static void choose(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

// First line of a test case: runs it once per instruction set.
#define WEIR_FOR_EACH_INSTRUCTION_SET()                                                                 \
  const std::int64_t target = GENERATE(Catch::Generators::from_range(weir::tests::instruction_sets())); \
  const weir::tests::pinned_instruction_set pinned(target);                                             \
  INFO("instruction set " << hwy::TargetName(target))

// One operand twice. Values are float numbers, so both backends start from exactly the same input.
struct both {
  std::vector<double> wide;
  std::vector<float> narrow;

  explicit both(std::size_t count) : wide(count, 0.0), narrow(count, 0.0F) {}
  both(std::mt19937_64& random, std::int64_t count, double mean = 0.0, double spread = 1.0)
      : both(static_cast<std::size_t>(count)) {
    for (std::size_t i = 0; i < wide.size(); ++i) {
      const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
      narrow[i] = static_cast<float>(mean + spread * (2.0 * unit - 1.0));
      wide[i] = static_cast<double>(narrow[i]);
    }
  }
};

inline both zeros(std::int64_t count) {
  return both(static_cast<std::size_t>(count));
}

// A weight matrix in a stored dtype, owning its bytes.
struct stored_matrix {
  std::vector<std::uint16_t> halves;
  std::vector<float> floats;
  std::vector<std::uint8_t> codes, scales;
  std::vector<std::int8_t> bytes;
  kernels::matrix view;

  stored_matrix(std::mt19937_64& random, kernels::dtype type, std::int32_t rows, std::int32_t cols) {
    if (type == kernels::dtype::mxfp4) {
      pack(random, rows, cols);
      return;
    }
    if (type == kernels::dtype::int8) {
      quantise(random, rows, cols);
      return;
    }
    const both values(random, static_cast<std::int64_t>(rows) * cols);
    for (const float value : values.narrow) {
      if (type == kernels::dtype::f32) floats.push_back(value);
      if (type == kernels::dtype::bf16) halves.push_back(kernels::float_to_bf16(value));
      // Any finite pattern will do for binary16: exponents 1..15 keep the values below 2.
      if (type == kernels::dtype::f16) halves.push_back(static_cast<std::uint16_t>(random() & 0xBFFFU));
    }
    view = {type == kernels::dtype::f32 ? static_cast<const void*>(floats.data()) : halves.data(), type, rows,
            cols};
  }
  stored_matrix(stored_matrix&& other) noexcept
      : halves(std::move(other.halves)),
        floats(std::move(other.floats)),
        codes(std::move(other.codes)),
        scales(std::move(other.scales)),
        bytes(std::move(other.bytes)),
        view(other.view) {}

 private:
  void quantise(std::mt19937_64& random, std::int32_t rows, std::int32_t cols) {
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(rows) * cols; ++i) {
      bytes.push_back(static_cast<std::int8_t>(static_cast<int>(random() % 255) - 127));
    }
    floats = both(random, static_cast<std::int64_t>(rows) * cols / kernels::k_int8_group, 0.01, 0.008).narrow;
    view = {bytes.data(), kernels::dtype::int8, rows, cols, floats.data()};
  }

  // Any codes will do; scales of 2^-5 to 2^0 with, now and then, the extremes that must not matter: 0 and
  // 255.
  void pack(std::mt19937_64& random, std::int32_t rows, std::int32_t cols) {
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(rows) * cols / 2; ++i) {
      codes.push_back(static_cast<std::uint8_t>(random()));
    }
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(rows) * cols / kernels::k_mxfp4_group; ++i) {
      const std::uint64_t pick = random() % 40;
      scales.push_back(static_cast<std::uint8_t>(pick == 0 ? 0 : pick == 1 ? 255 : 122 + pick % 6));
    }
    view = {codes.data(), kernels::dtype::mxfp4, rows, cols, scales.data()};
  }
};

inline kernels::matrix_list list_of(const std::vector<kernels::matrix>& experts) {
  return {experts.data(), experts.front().type};
}

// The largest distance, relative to the largest value. The values must say something: a constant or empty
// output fails.
inline void check_close(const both& out, double tolerance) {
  REQUIRE(!out.wide.empty());
  double largest = 0.0;
  double distance = 0.0;
  for (std::size_t i = 0; i < out.wide.size(); ++i) {
    REQUIRE(std::isfinite(out.narrow[i]));
    largest = std::max(largest, std::fabs(out.wide[i]));
    distance = std::max(distance, std::fabs(out.wide[i] - static_cast<double>(out.narrow[i])));
  }
  REQUIRE(largest > 1e-6);
  const auto [low, high] = std::minmax_element(out.wide.begin(), out.wide.end());
  REQUIRE((out.wide.size() == 1 || *high > *low));
  CHECK(distance <= tolerance * std::max(largest, 1.0));
}

// A context with a workspace of exactly the asked size, between guard bytes.
class guarded_context final {
 public:
  guarded_context(kernels::thread_pool& pool, std::size_t bytes)
      : bytes_(bytes), memory_(bytes + 3 * k_guard, k_pattern) {
    void* place = memory_.data() + k_guard;
    std::size_t space = bytes + k_guard;
    std::align(k_guard, bytes, place, space);
    begin_ = static_cast<std::byte*>(place);
    context_ = {&pool, begin_, bytes};
  }
  const kernels::context& get() const { return context_; }
  void check_guards() const {
    const std::byte* first = memory_.data();
    const std::byte* last = memory_.data() + memory_.size();
    CHECK(std::all_of(first, static_cast<const std::byte*>(begin_),
                      [](std::byte b) { return b == k_pattern; }));
    CHECK(std::all_of(static_cast<const std::byte*>(begin_) + bytes_, last,
                      [](std::byte b) { return b == k_pattern; }));
  }

 private:
  static constexpr std::size_t k_guard = 64;
  static constexpr std::byte k_pattern{0xA5};
  std::size_t bytes_;
  std::vector<std::byte> memory_;
  std::byte* begin_ = nullptr;
  kernels::context context_;
};

// A product with a workspace of exactly its size.
inline void guarded_gemm(const kernels::kernel_table<float>& table, const kernels::gemm_params<float>& p,
                         kernels::thread_pool& pool) {
  const guarded_context ctx(pool, table.gemm_workspace_bytes(p, pool.thread_count()));
  table.gemm(p, ctx.get());
  ctx.check_guards();
}

// Sequences of given lengths and start positions, with pages in shuffled order and slots in reverse order.
struct test_batch {
  std::vector<kernels::sequence_range> sequences;
  std::vector<std::int32_t> row_sequence;
  std::vector<std::int32_t> block_table;
  std::int32_t stride = 0;
  std::int32_t page_count = 0;

  struct part {
    std::int32_t position;
    std::int32_t count;
  };

  test_batch(std::mt19937_64& random, const std::vector<part>& parts, std::int32_t page_tokens) {
    for (const part& p : parts) stride = std::max(stride, (p.position + p.count - 1) / page_tokens + 1);
    page_count = stride * static_cast<std::int32_t>(parts.size()) + 2;
    std::vector<std::int32_t> pages(static_cast<std::size_t>(page_count));
    std::iota(pages.begin(), pages.end(), 0);
    std::shuffle(pages.begin(), pages.end(), random);
    for (std::size_t s = 0; s < parts.size(); ++s) {
      const auto row = static_cast<std::int32_t>(row_sequence.size());
      sequences.push_back(
          {row, parts[s].count, parts[s].position, static_cast<std::int32_t>(parts.size() - 1 - s)});
      row_sequence.insert(row_sequence.end(), static_cast<std::size_t>(parts[s].count),
                          static_cast<std::int32_t>(s));
    }
    pages.resize(static_cast<std::size_t>(stride) * parts.size());
    block_table = pages;
  }

  std::int32_t rows() const { return static_cast<std::int32_t>(row_sequence.size()); }
  std::int32_t slots() const { return static_cast<std::int32_t>(sequences.size()); }
  kernels::batch_view view() const {
    kernels::batch_view out{
        sequences.data(), row_sequence.data(), block_table.data(), slots(), stride, rows()};
    for (const kernels::sequence_range& seq : sequences) {
      out.context_max = std::max(out.context_max, seq.position + seq.count);
      out.count_max = std::max(out.count_max, seq.count);
    }
    return out;
  }
};

inline const std::vector<std::vector<test_batch::part>>& awkward_batches() {
  static const std::vector<std::vector<test_batch::part>> k_batches{
      {{0, 1}}, {{0, 7}}, {{5, 1}}, {{1, 2}, {0, 1}, {30, 1}}, {{0, 3}, {17, 9}, {2, 1}, {64, 5}},
  };
  return k_batches;
}

}  // namespace weir::tests
