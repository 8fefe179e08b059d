#include "engine/synth/random_source.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "engine/splitmix.hpp"
#include "kernels/dtype.hpp"

namespace weir::engine::synth {

namespace {

using model::storage;

constexpr std::size_t k_table = 4096;  // values that a tensor is drawn from
constexpr int k_draw_bits = 12;
constexpr int k_draws = 5;  // of one random number

struct spread {
  double mean;
  double deviation;
};

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> ends) {
  return std::ranges::any_of(ends, [name](std::string_view end) { return name.ends_with(end); });
}

bool is_single_precision(std::string_view name) {
  return ends_with_any(name, {"A_log", "dt_bias", "e_score_correction_bias"});
}

spread spread_of(std::string_view name, const std::vector<std::int64_t>& shape) {
  if (name.ends_with("A_log")) return {0.5, 0.7};
  if (name.ends_with("dt_bias")) return {-3.0, 1.5};
  if (name.ends_with("e_score_correction_bias")) return {0.0, 0.1};
  if (name.ends_with("conv1d.weight")) return {0.0, 0.5};
  if (name.ends_with("embed_tokens.weight")) return {0.0, 1.0};
  if (ends_with_any(name, {"norm.weight"})) return {1.0, 0.2};
  return {0.0, 1.0 / std::sqrt(static_cast<double>(shape.back()))};
}

std::uint64_t mix(std::uint64_t x) {
  return mix_all_bits(x + k_splitmix_step);
}

std::uint64_t seed_of(std::string_view name, std::uint64_t seed) {
  std::uint64_t hash = mix(seed);
  for (const char c : name) hash = mix(hash ^ static_cast<unsigned char>(c));
  return hash;
}

// A sample of the normal distribution, in the tensor's format.
template <class T>
std::array<T, k_table> table_of(const spread& of, std::uint64_t seed) {
  std::array<T, k_table> out;
  constexpr double two_pi = 6.283185307179586;
  for (std::size_t i = 0; i < k_table; ++i) {
    const auto unit = [&](std::uint64_t k) {
      return (static_cast<double>(mix(seed + 2 * i + k) >> 11) + 0.5) * 0x1p-53;
    };
    const double normal = std::sqrt(-2.0 * std::log(unit(0))) * std::cos(two_pi * unit(1));
    const auto value = static_cast<float>(of.mean + of.deviation * normal);
    if constexpr (sizeof(T) == 2) {
      out[i] = kernels::float_to_bf16(value);
    } else {
      out[i] = value;
    }
  }
  return out;
}

template <class T>
void draw(const std::array<T, k_table>& table, std::uint64_t seed, std::span<std::byte> out) {
  const std::size_t count = out.size() / sizeof(T);
  std::uint64_t state = seed;
  std::size_t i = 0;
  while (i < count) {
    std::uint64_t bits = mix(state++);
    for (int n = 0; n < k_draws && i < count; ++n, ++i) {
      std::memcpy(out.data() + i * sizeof(T), &table[bits % k_table], sizeof(T));
      bits >>= k_draw_bits;
    }
  }
}

// Any code, and the scales that make values about as large as those of a matrix.
void draw_packed(storage how, std::int64_t cols, std::uint64_t seed, std::span<std::byte> out) {
  constexpr double code_deviation = 2.93;  // of the sixteen codes
  constexpr int bias = 127;
  const double wanted = 1.0 / (code_deviation * std::sqrt(static_cast<double>(cols)));
  const auto middle = static_cast<std::uint8_t>(bias + static_cast<int>(std::lround(std::log2(wanted))));
  std::uint64_t state = seed;
  for (std::size_t i = 0; i < out.size(); i += sizeof(std::uint64_t)) {
    std::uint64_t bits = mix(state++);
    if (how == storage::scales) bits &= 0x0101010101010101ULL;
    std::array<std::uint8_t, sizeof bits> bytes;
    std::memcpy(bytes.data(), &bits, sizeof bits);
    if (how == storage::scales) {
      for (auto& b : bytes) b = static_cast<std::uint8_t>(b + middle - 1);
    }
    std::memcpy(out.data() + i, bytes.data(), std::min(sizeof bits, out.size() - i));
  }
}

std::int64_t unpacked_cols(const std::vector<std::int64_t>& shape, storage how) {
  return shape.back() * (how == storage::codes ? 2 : kernels::k_mxfp4_group);
}

}  // namespace

tensor_plan plan_of(std::string_view name, const std::vector<std::int64_t>& shape, storage how) {
  std::int64_t values = 1;
  for (const std::int64_t size : shape) values *= size;
  if (how == storage::codes || how == storage::scales) return {"U8", values, values};
  if (is_single_precision(name)) return {"F32", values, values * 4};
  return {"BF16", values, values * 2};
}

void fill_tensor(std::string_view name, const std::vector<std::int64_t>& shape, storage how,
                 std::uint64_t seed, std::size_t first, std::span<std::byte> out,
                 kernels::thread_pool& pool) {
  const std::uint64_t base = seed_of(name, seed);
  const auto parts = static_cast<std::int64_t>((out.size() + k_fill_bytes - 1) / k_fill_bytes);
  const auto each = [&](auto&& fill) {
    pool.run(parts, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::size_t at = static_cast<std::size_t>(i) * k_fill_bytes;
        fill(mix(base + (first + at) / k_fill_bytes),
             out.subspan(at, std::min(k_fill_bytes, out.size() - at)));
      }
    });
  };
  if (how == storage::codes || how == storage::scales) {
    const std::int64_t cols = unpacked_cols(shape, how);
    each([&](std::uint64_t s, std::span<std::byte> part) { draw_packed(how, cols, s, part); });
  } else if (is_single_precision(name)) {
    const auto table = table_of<float>(spread_of(name, shape), base);
    each([&](std::uint64_t s, std::span<std::byte> part) { draw(table, s, part); });
  } else {
    const auto table = table_of<std::uint16_t>(spread_of(name, shape), base);
    each([&](std::uint64_t s, std::span<std::byte> part) { draw(table, s, part); });
  }
}

random_source::random_source(std::uint64_t seed, kernels::thread_pool& pool,
                             std::function<void(std::int64_t)> told)
    : seed_(seed), pool_(&pool), told_(std::move(told)) {}

void random_source::finished() noexcept {
  pool_ = nullptr;
  told_ = nullptr;
}

std::optional<model::tensor_view> random_source::find(std::string_view) const {
  return std::nullopt;
}

std::optional<model::tensor_view> random_source::take(std::string_view name,
                                                      const std::vector<std::int64_t>& shape, storage how) {
  const auto plan = plan_of(name, shape, how);
  const auto data = memory_.take(static_cast<std::size_t>(plan.bytes));
  fill_tensor(name, shape, how, seed_, 0, data, *pool_);
  made_bytes_ += plan.bytes;
  if (told_) told_(made_bytes_);
  return model::tensor_view{std::string(plan.dtype), shape, data};
}

}  // namespace weir::engine::synth
