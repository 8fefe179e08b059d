// Times of CUDA's kernels beside what bounds them on the same device: kernel, shape, time, share of copying
// memory or of the tensor cores' peak. Shapes are those of Kimi-Linear and Kimi K3. Prints one line each; not
// a test: figures go to kernels/RESULTS.md.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "engine/bench/device_limits.hpp"
#include "engine/cuda/cuda_backend.hpp"
#include "engine/runner/backend.hpp"
#include "kernels/dtype.hpp"

namespace {

using namespace weir;
using engine::runner::device;
using engine::runner::scratch;
using kernels::activation_format;
using kernels::dtype;

constexpr std::int64_t k_block_values = 1 << 22;

class workbench final {
 public:
  workbench(std::shared_ptr<device> where, const kernels::machine_limits& limits)
      : device_(std::move(where)),
        limits_(limits),
        table_(engine::runner::cuda_backend()->table(activation_format::narrow)) {}

  const kernels::kernel_table<float>& table() const { return table_; }
  kernels::context context(std::size_t workspace_bytes) {
    std::byte* const space = make<std::byte>(static_cast<std::int64_t>(workspace_bytes) + 256);
    return device_->context(space, workspace_bytes);
  }

  template <class T>
  T* make(std::int64_t count) {
    auto& memory = kept_.emplace_back(std::make_unique<scratch<std::byte>>(*device_));
    return reinterpret_cast<T*>(
        memory->need(std::max<std::int64_t>(count, 1) * static_cast<std::int64_t>(sizeof(T))));
  }
  template <class T>
  T* place(const std::vector<T>& values) {
    T* const to = make<T>(static_cast<std::int64_t>(values.size()));
    device_->upload(to, values.data(), values.size() * sizeof(T));
    return to;
  }
  // Values of one block, over and over.
  float* floats(std::int64_t count, double mean, double spread) {
    std::vector<float> block(static_cast<std::size_t>(std::min(count, k_block_values)));
    for (float& v : block) v = static_cast<float>(mean + spread * (2.0 * unit() - 1.0));
    return repeat(block, count);
  }
  kernels::matrix matrix(dtype type, std::int32_t rows, std::int32_t cols) {
    const std::int64_t count = static_cast<std::int64_t>(rows) * cols;
    if (type == dtype::mxfp4) {
      return {bytes(count / 2, 0xFF, 0), type, rows, cols, bytes(count / kernels::k_mxfp4_group, 1, 119)};
    }
    std::vector<std::uint16_t> block(static_cast<std::size_t>(std::min(count, k_block_values)));
    for (auto& v : block) v = kernels::float_to_bf16(static_cast<float>(0.04 * (unit() - 0.5)));
    return {repeat(block, count), type, rows, cols};
  }

  // Prints the time of `work` beside `bytes` moved and `flops` done.
  template <class Work>
  void measure(const char* kernel, const std::string& shape, double bytes, double flops, Work&& work) {
    using clock = std::chrono::steady_clock;
    work();
    device_->wait();
    int rounds = 1;
    double seconds = 0;
    for (; rounds < 1 << 16; rounds *= 2) {
      const auto begin = clock::now();
      for (int i = 0; i < rounds; ++i) work();
      device_->wait();
      seconds = std::chrono::duration<double>(clock::now() - begin).count();
      if (seconds > 0.1) break;
    }
    const double each = seconds / rounds;
    const double of_memory = bytes / each / limits_.read_bytes_per_s;
    const double of_tensor = flops / each / limits_.bf16_flops_per_s;
    std::printf("%-12s %-46s %10.1f us   %5.1f%% of copying   %5.1f%% of tensor peak\n", kernel,
                shape.c_str(), each * 1e6, 100 * of_memory, 100 * of_tensor);
    std::fflush(stdout);
    kept_.clear();
  }

  double unit() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

 private:
  template <class T>
  T* repeat(const std::vector<T>& block, std::int64_t count) {
    T* const to = make<T>(count);
    const auto first = static_cast<std::int64_t>(block.size());
    device_->upload(to, block.data(), block.size() * sizeof(T));
    for (std::int64_t at = first; at < count; at += first) {
      device_->copy(to + at, to, static_cast<std::size_t>(std::min(first, count - at)) * sizeof(T));
    }
    return to;
  }
  std::uint8_t* bytes(std::int64_t count, std::uint8_t mask, std::uint8_t base) {
    std::vector<std::uint8_t> block(static_cast<std::size_t>(std::min(count, k_block_values)));
    for (auto& v : block) v = static_cast<std::uint8_t>((random_() & mask) + base);
    return repeat(block, count);
  }

  std::shared_ptr<device> device_;
  kernels::machine_limits limits_;
  kernels::kernel_table<float> table_;
  std::mt19937_64 random_{1};
  std::vector<std::unique_ptr<scratch<std::byte>>> kept_;
};

// Sequences of one length each at one position, pages shuffled.
kernels::batch_view make_batch(workbench& on, std::int32_t sequences, std::int32_t count,
                               std::int32_t position, std::int32_t page_tokens) {
  std::vector<kernels::sequence_range> ranges;
  std::vector<std::int32_t> rows;
  const std::int32_t stride = (position + count - 1) / page_tokens + 1;
  std::vector<std::int32_t> pages(static_cast<std::size_t>(stride) * static_cast<std::size_t>(sequences));
  std::iota(pages.begin(), pages.end(), 0);
  std::mt19937_64 random(7);
  std::shuffle(pages.begin(), pages.end(), random);
  for (std::int32_t s = 0; s < sequences; ++s) {
    ranges.push_back({s * count, count, position, s});
    rows.insert(rows.end(), static_cast<std::size_t>(count), s);
  }
  kernels::batch_view out{on.place(ranges), on.place(rows), on.place(pages),
                          sequences,        stride,         sequences * count};
  out.context_max = position + count;
  out.count_max = count;
  return out;
}

void time_kda(workbench& on, std::int32_t sequences, std::int32_t count, std::int32_t heads) {
  constexpr std::int32_t k_dim = 128;
  const std::int64_t rows = static_cast<std::int64_t>(sequences) * count;
  const std::int64_t cells = rows * heads * k_dim;
  const std::int64_t state = static_cast<std::int64_t>(heads) * k_dim * k_dim;
  const auto batch = make_batch(on, sequences, count, 1, 64);
  const kernels::kda_params<float> p{on.floats(cells, 0, 0.15),
                                     on.floats(cells, 0, 0.15),
                                     on.floats(cells, 0, 1),
                                     on.floats(cells, -0.1, 0.1),
                                     on.floats(rows * heads, 0.5, 0.4),
                                     on.floats(state * sequences, 0, 0.5),
                                     on.make<float>(cells),
                                     batch,
                                     heads,
                                     k_dim,
                                     state};
  const double bytes =
      4.0 * (2.0 * static_cast<double>(state) * sequences + 5.0 * static_cast<double>(cells));
  const double flops = 6.0 * static_cast<double>(rows) * static_cast<double>(state);
  const auto ctx = on.context(0);
  on.measure("kda",
             std::to_string(sequences) + " x " + std::to_string(count) + " tokens, " + std::to_string(heads) +
                 " heads",
             bytes, flops, [&] { on.table().kda(p, ctx); });
}

void time_mla(workbench& on, std::int32_t sequences, std::int32_t count, std::int32_t position,
              std::int32_t heads) {
  constexpr std::int32_t k_rank = 512, k_rope = 64, k_nope = 128, k_value = 128, k_page = 64;
  const auto batch = make_batch(on, sequences, count, position, k_page);
  const std::int64_t rows = batch.row_count;
  const std::int64_t page = static_cast<std::int64_t>(k_page) * (k_rank + k_rope);
  const std::int64_t pages = static_cast<std::int64_t>(batch.table_stride) * sequences;
  const auto latents = on.matrix(dtype::bf16, static_cast<std::int32_t>(pages * k_page), k_rank + k_rope);
  const kernels::mla_params<float> p{on.floats(rows * heads * (k_nope + k_rope), 0, 1),
                                     on.matrix(dtype::bf16, heads * (k_nope + k_value), k_rank),
                                     latents.data,
                                     on.make<float>(rows * heads * k_value),
                                     batch,
                                     heads,
                                     k_nope,
                                     k_rope,
                                     k_value,
                                     k_rank,
                                     k_page,
                                     page,
                                     kernels::latent_format::bf16};
  const auto ctx = on.context(on.table().mla_workspace_bytes(p, 1));
  const double seen = static_cast<double>(rows) * (position + (count + 1) / 2.0);
  const double bytes = 2.0 * (k_rank + k_rope) * static_cast<double>(sequences) * (position + count) +
                       2.0 * heads * (k_nope + k_value) * k_rank;
  const double flops = 2.0 * seen * heads * (2.0 * k_rank + k_rope) +
                       2.0 * static_cast<double>(rows) * heads * (k_nope + k_value) * k_rank;
  on.measure("mla",
             std::to_string(sequences) + " x " + std::to_string(count) + " at " + std::to_string(position) +
                 ", " + std::to_string(heads) + " heads",
             bytes, flops, [&] { on.table().mla(p, ctx); });
}

struct expert_shape {
  dtype type;
  std::int32_t experts, chosen, dim, width;
};

void time_experts(workbench& on, std::int32_t rows, const expert_shape& e) {
  std::vector<kernels::matrix> w1, w3, w2;
  for (std::int32_t i = 0; i < e.experts; ++i) {
    w1.push_back(on.matrix(e.type, e.width, e.dim));
    w3.push_back(on.matrix(e.type, e.width, e.dim));
    w2.push_back(on.matrix(e.type, e.dim, e.width));
  }
  std::vector<std::int32_t> ids, all(static_cast<std::size_t>(e.experts));
  std::iota(all.begin(), all.end(), 0);
  std::mt19937_64 random(3);
  for (std::int32_t t = 0; t < rows; ++t) {
    std::shuffle(all.begin(), all.end(), random);
    ids.insert(ids.end(), all.begin(), all.begin() + e.chosen);
  }
  std::vector<std::int32_t> touched = ids;
  std::sort(touched.begin(), touched.end());
  const auto distinct = std::unique(touched.begin(), touched.end()) - touched.begin();
  const std::int64_t cells = static_cast<std::int64_t>(rows) * e.dim;
  kernels::experts_params<float> p{on.floats(cells, 0, 1),
                                   {on.place(w1), e.type},
                                   {on.place(w3), e.type},
                                   {on.place(w2), e.type},
                                   on.place(ids),
                                   on.floats(static_cast<std::int64_t>(ids.size()), 0.1, 0.05),
                                   on.make<float>(cells),
                                   rows,
                                   e.experts,
                                   e.chosen,
                                   e.dim,
                                   e.width};
  if (e.type == dtype::mxfp4) p.situ = {4.0, 25.0};
  const auto ctx = on.context(on.table().experts_workspace_bytes(p, 1));
  const std::int64_t values = 3LL * e.dim * e.width;
  on.measure("experts",
             std::string(e.type == dtype::mxfp4 ? "mxfp4 " : "bf16 ") + std::to_string(rows) + " tokens, " +
                 std::to_string(e.chosen) + " of " + std::to_string(e.experts),
             static_cast<double>(kernels::stored_bytes(e.type, values)) * static_cast<double>(distinct),
             2.0 * static_cast<double>(values) * static_cast<double>(ids.size()),
             [&] { on.table().experts(p, ctx); });
}

void time_gemm(workbench& on, std::int32_t rows, std::int32_t cols, std::int32_t depth) {
  const kernels::gemm_params<float> p{on.floats(static_cast<std::int64_t>(rows) * depth, 0, 1),
                                      on.matrix(dtype::bf16, cols, depth),
                                      on.make<float>(static_cast<std::int64_t>(rows) * cols), rows};
  const auto ctx = on.context(on.table().gemm_workspace_bytes(p, 1));
  on.measure("gemm",
             std::to_string(rows) + " x " + std::to_string(cols) + " x " + std::to_string(depth) + " bf16",
             2.0 * cols * static_cast<double>(depth) + 4.0 * rows * (static_cast<double>(cols) + depth),
             2.0 * rows * static_cast<double>(cols) * depth, [&] { on.table().gemm(p, ctx); });
}

}  // namespace

int main() {
  engine::cuda::link_backend();
  const auto* const cuda = engine::runner::cuda_backend();
  if (cuda == nullptr || cuda->count() == 0) {
    std::puts("SKIP: no CUDA device to measure");
    return 77;
  }
  const auto facts = cuda->facts(0);
  const auto limits = engine::bench::measure_device(0);
  auto opened = cuda->open(0);
  if (!facts || !limits || !opened) {
    std::fprintf(stderr, "%s\n",
                 (!facts    ? facts.error()
                  : !limits ? limits.error()
                            : opened.error())
                     .detail.c_str());
    return 1;
  }
  std::printf("%s: copies %.2f TB/s, products of bf16 %.0f TFLOP/s\n\n", facts->name.c_str(),
              limits->read_bytes_per_s * 1e-12, limits->bf16_flops_per_s * 1e-12);
  workbench on(std::move(*opened), *limits);
  for (const std::int32_t sequences : {1, 16, 64, 256}) time_kda(on, sequences, 1, 32);
  time_kda(on, 64, 1, 96);
  time_kda(on, 1, 8192, 32);
  time_kda(on, 8, 1024, 32);
  for (const std::int32_t heads : {32, 96}) {
    for (const std::int32_t sequences : {1, 16, 64}) time_mla(on, sequences, 1, 8191, heads);
    time_mla(on, 1, 2048, 0, heads);
    time_mla(on, 1, 512, 16384, heads);
  }
  for (const std::int32_t rows : {1, 2, 4, 8, 16, 64}) {
    time_experts(on, rows, {dtype::mxfp4, 896, 16, 3584, 3072});
    time_experts(on, rows, {dtype::bf16, 256, 8, 2304, 1024});
  }
  time_experts(on, 2048, {dtype::bf16, 256, 8, 2304, 1024});
  for (const std::int32_t rows : {1, 8, 64, 512, 8192}) time_gemm(on, rows, 4096, 2304);
  return 0;
}
