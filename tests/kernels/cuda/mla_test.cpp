// Attention over pages: CUDA's sources, emulated, against the reference.
#include "kernels/cuda/mla_config.hpp"
#include "tests/kernels/cuda/products.hpp"

namespace {

using namespace weir;
using namespace weir::tests;
using kernels::activation_format;
using kernels::dtype;
using kernels::latent_format;

const auto k_reference = kernels::make_reference_table();
const auto k_exact = kernels::make_cuda_table(activation_format::float32);
const auto k_narrow = kernels::make_cuda_table(activation_format::narrow);
constexpr double k_tolerance = 1e-5;  // of the largest output, as for other attention
// Absorbed queries, weights and what is mixed are rounded to bf16, 2^-9 of a value at most each; outputs are
// averages in which such roundings partly cancel.
constexpr double k_narrow_tolerance = 1e-2;
constexpr std::int64_t k_gap = 8;  // between pages

struct sizes {
  std::int32_t heads, nope, rope, value, rank, page_tokens;
};
constexpr sizes k_published{3, 16, 64, 24, kernels::cuda::k_mla_rank, 16};

// A batch with everything that attention reads; latents lie in pages in both formats.
struct scene {
  sizes s;
  test_batch batch;
  std::int32_t width;
  std::int64_t stride;
  both pages;
  std::vector<std::uint16_t> halves;
  both q;
  stored_matrix kv_b;

  scene(std::mt19937_64& random, const sizes& sizes_, const std::vector<test_batch::part>& parts, dtype type,
        bool rounded, double sharpness = 0.5)
      : s(sizes_),
        batch(random, parts, s.page_tokens),
        width(s.rank + s.rope),
        stride((s.page_tokens * width + k_gap + 7) / 8 * 8),
        pages(random, batch.page_count * stride),
        q(random, static_cast<std::int64_t>(batch.rows()) * s.heads * (s.nope + s.rope), 0.0, sharpness),
        kv_b(random, type, s.heads * (s.nope + s.value), s.rank) {
    for (std::size_t i = 0; i < pages.narrow.size(); ++i) {
      halves.push_back(kernels::float_to_bf16(pages.narrow[i]));
      if (rounded) pages.narrow[i] = kernels::bf16_to_float(halves.back());
      pages.wide[i] = static_cast<double>(pages.narrow[i]);
    }
  }

  both expected() const {
    both o = zeros(static_cast<std::int64_t>(batch.rows()) * s.heads * s.value);
    k_reference.mla({q.wide.data(), kv_b.view, pages.wide.data(), o.wide.data(), batch.view(), s.heads,
                     s.nope, s.rope, s.value, s.rank, s.page_tokens, stride},
                    {});
    return o;
  }

  std::vector<float> run(const kernels::kernel_table<float>& table, latent_format format) const {
    std::vector<float> o(static_cast<std::size_t>(batch.rows() * s.heads * s.value), -7.0F);
    const void* stored = halves.data();
    if (format == latent_format::activation) stored = pages.narrow.data();
    const kernels::mla_params<float> p{q.narrow.data(), kv_b.view, stored, o.data(), batch.view(),
                                       s.heads,         s.nope,    s.rope, s.value,  s.rank,
                                       s.page_tokens,   stride,    format};
    kernels::thread_pool pool(1);
    const guarded_context ctx(pool, table.mla_workspace_bytes(p, 1));
    table.mla(p, ctx.get());
    ctx.check_guards();
    return o;
  }

  // The last row alone.
  std::vector<float> last_row_alone(const kernels::kernel_table<float>& table, latent_format format) {
    const test_batch whole = batch;
    const auto all = q.narrow;
    const kernels::sequence_range range = whole.sequences.back();
    batch.sequences = {{0, 1, range.position + range.count - 1, 0}};
    batch.row_sequence = {0};
    batch.block_table.assign(whole.block_table.end() - whole.stride, whole.block_table.end());
    q.narrow.assign(all.end() - s.heads * (s.nope + s.rope), all.end());
    auto out = run(table, format);
    batch = whole;
    q.narrow = all;
    return out;
  }

  // As many rows before the batch's one, each the first of a sequence that shares its pages.
  void crowd(std::mt19937_64& random, std::int32_t rows) {
    const kernels::sequence_range last = batch.sequences.back();
    const auto pages_of_one = batch.block_table;
    batch.sequences.clear();
    batch.row_sequence.clear();
    batch.block_table.clear();
    for (std::int32_t i = 0; i <= rows; ++i) {
      batch.sequences.push_back({i, 1, i == rows ? last.position : 0, 0});
      batch.row_sequence.push_back(i);
      batch.block_table.insert(batch.block_table.end(), pages_of_one.begin(), pages_of_one.end());
    }
    q = both(random, static_cast<std::int64_t>(batch.rows()) * s.heads * (s.nope + s.rope), 0.0, 0.5);
  }
};

}  // namespace

TEST_CASE("cuda: attention of any shape", "[cuda]") {
  std::mt19937_64 random(81);
  const sizes rows[] = {
      {1, 1, 0, 1, 1, 1}, {2, 16, 8, 16, 32, 4}, {3, 33, 17, 29, 50, 5}, {2, 130, 64, 40, 72, 16}};
  for (const sizes& s : rows) {
    for (const auto& parts : awkward_batches()) {
      const dtype type = s.rank % 3 == 0 ? dtype::f16 : s.rank % 8 == 0 ? dtype::bf16 : dtype::f32;
      INFO(parts.size() << " sequences, rank " << s.rank << ", pages of " << s.page_tokens);
      const scene in(random, s, parts, type, true);
      both o = in.expected();
      for (const auto format : {latent_format::activation, latent_format::bf16}) {
        o.narrow = in.run(k_exact, format);
        check_close(o, k_tolerance);
      }
      o.narrow = in.run(k_narrow, latent_format::bf16);
      check_close(o, k_narrow_tolerance);
    }
  }
}

TEST_CASE("cuda: attention of the published shape", "[cuda]") {
  std::mt19937_64 random(82);
  for (const auto& parts : awkward_batches()) {
    const scene in(random, k_published, parts, dtype::bf16, true);
    both o = in.expected();
    o.narrow = in.run(k_exact, latent_format::bf16);
    check_close(o, k_tolerance);
    o.narrow = in.run(k_narrow, latent_format::bf16);
    check_close(o, k_narrow_tolerance);
    // Pages of float are rounded on their way, to the same.
    CHECK(in.run(k_narrow, latent_format::activation) == o.narrow);
  }
}

TEST_CASE("cuda: attention of more heads than a block takes", "[cuda]") {
  std::mt19937_64 random(83);
  for (const std::int32_t heads : {32, 41, 96}) {
    const sizes s{heads, 8, 64, 8, kernels::cuda::k_mla_rank, 7};
    const scene in(random, s, {{0, 2}, {38, 1}}, dtype::bf16, true);
    both o = in.expected();
    o.narrow = in.run(k_narrow, latent_format::bf16);
    check_close(o, k_narrow_tolerance);
  }
}

TEST_CASE("cuda: attention over several splits, with weight on few positions", "[cuda]") {
  std::mt19937_64 random(84);
  for (const double sharpness : {0.3, 8.0}) {
    const scene in(random, {2, 8, 64, 8, kernels::cuda::k_mla_rank, 32}, {{600, 1}, {254, 3}}, dtype::bf16,
                   true, sharpness);
    both o = in.expected();
    o.narrow = in.run(k_narrow, latent_format::bf16);
    check_close(o, sharpness > 1.0 ? 10.0 * k_narrow_tolerance : k_narrow_tolerance);
    o.narrow = in.run(k_exact, latent_format::bf16);
    check_close(o, sharpness > 1.0 ? 4.0 * k_tolerance : k_tolerance);
  }
}

// With so many rows blocks go through the splits of a row themselves.
TEST_CASE("cuda: a row's attention does not depend on the batch", "[cuda]") {
  std::mt19937_64 random(85);
  const auto many = static_cast<std::int32_t>(kernels::cuda::k_mla_split_rows_max);
  for (const auto* table : {&k_exact, &k_narrow}) {
    const sizes tiny{1, 4, 4, 4, 8, 16};
    const sizes published{1, 4, 64, 4, kernels::cuda::k_mla_rank, 16};
    scene in(random, table == &k_exact ? tiny : published, {{600, 1}}, dtype::bf16, true);
    in.crowd(random, many);
    both o = in.expected();
    o.narrow = in.run(*table, latent_format::bf16);
    check_close(o, table == &k_exact ? k_tolerance : k_narrow_tolerance);
    const auto alone = in.last_row_alone(*table, latent_format::bf16);
    CHECK(std::equal(alone.begin(), alone.end(), o.narrow.end() - static_cast<std::ptrdiff_t>(alone.size())));
  }
}

TEST_CASE("attention's splits cover every context, and what is asked of the hardware is within its limits",
          "[cuda]") {
  using namespace kernels::cuda;
  std::int32_t before = 0;
  int most = 0;
  for (std::int64_t context = 1; context < (std::int64_t{1} << 30); context += context / 3 + 1) {
    const auto count = static_cast<std::int32_t>(context);
    const std::int32_t split = split_positions(count);
    INFO(count << " positions in splits of " << split);
    CHECK(split >= before);
    CHECK(split % k_mla_positions == 0);
    CHECK(divide_up(count, split) <= splits_max(count));
    CHECK(splits_max(count) <= k_mla_splits_max);
    CHECK(splits_max(count) >= most);  // of every shorter context too
    most = splits_max(count);
    before = split;
    for (const std::int64_t rows : {1, 64, 256, 257, 1 << 17}) {
      for (const std::int64_t heads : {1, 32, 96}) {
        const mla_layout l = mla_layout_of(rows, heads, 512, 64, count);
        CHECK((l.slots == 1 || rows * divide_up(heads, 32) <= k_mla_split_rows_max));
        CHECK(l.bytes >= static_cast<std::size_t>(rows * heads) * 4 * (576 + l.slots * 514));
        CHECK(fits(attend_shape(rows, heads, l.slots)));
        CHECK(fits(attend_plain_shape(rows, heads, l.slots, 512, 64)));
        CHECK(fits(absorb_shape(rows, heads, 576)));
        CHECK(fits(merge_shape(rows, heads)));
        CHECK(fits(project_plain_shape(rows, heads, 128)));
      }
    }
  }
  CHECK(attend_shape(0, 32, 1).grid_x == 0);
}
