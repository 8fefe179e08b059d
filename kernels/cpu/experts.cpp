#include <algorithm>

#include "kernels/cpu/ops.hpp"
#include "kernels/cpu/product.hpp"

namespace weir::kernels::cpu {

namespace {

constexpr std::int64_t k_unit_cols = 2 * k_column_unit;  // columns of an expert that are one piece of work
constexpr std::int64_t k_prepare_work = 4;               // of a value, in multiply-adds

// Rows of one expert that are multiplied together.
struct row_block {
  std::int32_t expert;
  std::int32_t first;  // sorted row
  std::int32_t count;
};

// Rows sorted by expert (N = T * k), carved from the workspace.
struct grouped_rows {
  std::int32_t* begin;  // [E + 1] first sorted row of each expert
  std::int32_t* pick;   // [N] the sorted row's place in ids and weights
  std::int32_t* place;  // [N] and back
  row_block* blocks;    // [block_count]
  std::byte* x;         // [N] prepared rows of D
  float* gate;          // [N, F]
  float* up;            // [N, F]
  std::byte* active;    // [N] prepared rows of F
  float* down;          // [N, D]
  std::byte* scratch;   // [threads]
};

struct products {
  product in, out;
  std::size_t in_bytes, out_bytes;  // of a prepared row
  std::size_t scratch_bytes;        // of a worker
  std::int64_t block;               // rows
};

template <activation_format Format>
products products_of(const experts_params<float>& p) {
  products out{};
  out.in = product_of(p.w1.type, Format);
  out.out = product_of(p.w2.type, Format);
  out.in_bytes = out.in.row_bytes(p.dim);
  out.out_bytes = out.out.row_bytes(p.width);
  out.scratch_bytes = std::max(out.in.scratch_bytes(p.dim), out.out.scratch_bytes(p.width));
  out.block = block_rows(std::max(out.in_bytes, out.out_bytes), p.rows);
  return out;
}

std::size_t layout(const experts_params<float>& p, const products& how, int threads, std::byte* base,
                   grouped_rows* rows) {
  const auto picks = static_cast<std::size_t>(p.rows) * static_cast<std::size_t>(p.per_token);
  const auto dim = static_cast<std::size_t>(p.dim);
  const auto width = static_cast<std::size_t>(p.width);
  const auto experts = static_cast<std::size_t>(p.experts);
  std::size_t used = 0;
  const auto carve = [base, &used]<class T>(T*& place, std::size_t count) {
    if (base != nullptr) place = reinterpret_cast<T*>(base + used);
    used += whole_lines(count * sizeof(T));
  };
  grouped_rows out{};
  carve(out.begin, experts + 1);
  carve(out.pick, picks);
  carve(out.place, picks);
  carve(out.blocks, std::min(experts, picks) + picks / static_cast<std::size_t>(how.block));
  carve(out.x, picks * how.in_bytes);
  carve(out.gate, picks * width);
  carve(out.up, picks * width);
  carve(out.active, picks * how.out_bytes);
  carve(out.down, picks * dim);
  carve(out.scratch, how.scratch_bytes * static_cast<std::size_t>(threads));
  if (rows != nullptr) *rows = out;
  return used;
}

// Counting sort by expert: stable, so a token's picks keep their order within an expert.
void sort_rows(const experts_params<float>& p, const grouped_rows& rows) {
  const std::int32_t picks = p.rows * p.per_token;
  std::fill_n(rows.begin, p.experts + 1, 0);
  for (std::int32_t i = 0; i < picks; ++i) ++rows.begin[p.ids[i] + 1];
  for (std::int32_t e = 0; e < p.experts; ++e) rows.begin[e + 1] += rows.begin[e];
  for (std::int32_t i = 0; i < picks; ++i) {
    rows.place[i] = rows.begin[p.ids[i]]++;
    rows.pick[rows.place[i]] = i;
  }
  for (std::int32_t e = p.experts; e > 0; --e) rows.begin[e] = rows.begin[e - 1];
  rows.begin[0] = 0;
}

std::int64_t cut_blocks(const experts_params<float>& p, const grouped_rows& rows, std::int64_t block) {
  std::int64_t count = 0;
  for (std::int32_t e = 0; e < p.experts; ++e) {
    for (std::int32_t first = rows.begin[e]; first < rows.begin[e + 1];) {
      const auto here = static_cast<std::int32_t>(std::min<std::int64_t>(block, rows.begin[e + 1] - first));
      rows.blocks[count++] = {e, first, here};
      first += here;
    }
  }
  return count;
}

// Calls each(block, first column, end, worker) over all blocks and units of columns.
template <class Each>
void over_columns(const grouped_rows& rows, std::int64_t block_count, std::int64_t cols, std::int64_t work,
                  const context& ctx, Each&& each) {
  const std::int64_t units = (cols + k_unit_cols - 1) / k_unit_cols;
  split(ctx, block_count * units, work, [&](std::int64_t begin, std::int64_t end, int worker) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t column = i % units * k_unit_cols;
      each(rows.blocks[i / units], column, std::min(column + k_unit_cols, cols), worker);
    }
  });
}

void apply_unit(const experts_params<float>& p, const grouped_rows& rows, const row_block& block,
                std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = block.first; row < block.first + block.count; ++row) {
    float* gate = rows.gate + row * p.width + begin;
    const float* up = rows.up + row * p.width + begin;
    if (p.situ.bounded()) {
      situ_mul({gate, up, end - begin, p.situ}, {});
    } else {
      silu_mul({gate, up, end - begin}, {});
    }
  }
}

// gate = unit(w1 x, w3 x), the unit on each piece while it is in the cache.
void multiply_in(const experts_params<float>& p, const products& how, const grouped_rows& rows,
                 std::int64_t block_count, const context& ctx) {
  const std::int64_t width = p.width;
  const std::int64_t mean_rows = (p.rows * p.per_token + block_count - 1) / block_count;
  over_columns(
      rows, block_count, width, 2 * k_unit_cols * p.dim * mean_rows, ctx,
      [&](const row_block& block, std::int64_t begin, std::int64_t end, int worker) {
        std::byte* scratch = rows.scratch + static_cast<std::size_t>(worker) * how.scratch_bytes;
        const matrix& w1 = p.w1.each[block.expert];
        const matrix& w3 = p.w3.each[block.expert];
        const std::byte* x = rows.x + static_cast<std::size_t>(block.first) * how.in_bytes;
        const std::int64_t at = block.first * width;
        how.in.columns({x, how.in_bytes, block.count, &w1, rows.gate + at, width, scratch}, begin, end);
        how.in.columns({x, how.in_bytes, block.count, &w3, rows.up + at, width, scratch}, begin, end);
        apply_unit(p, rows, block, begin, end);
      });
}

void multiply_out(const experts_params<float>& p, const products& how, const grouped_rows& rows,
                  std::int64_t block_count, const context& ctx) {
  const std::int64_t dim = p.dim;
  const std::int64_t mean_rows = (p.rows * p.per_token + block_count - 1) / block_count;
  over_columns(rows, block_count, dim, k_unit_cols * p.width * mean_rows, ctx,
               [&](const row_block& block, std::int64_t begin, std::int64_t end, int worker) {
                 std::byte* scratch = rows.scratch + static_cast<std::size_t>(worker) * how.scratch_bytes;
                 const matrix& w2 = p.w2.each[block.expert];
                 how.out.columns(
                     {rows.active + static_cast<std::size_t>(block.first) * how.out_bytes, how.out_bytes,
                      block.count, &w2, rows.down + block.first * dim, dim, scratch},
                     begin, end);
               });
}

void sum_up(const experts_params<float>& p, const grouped_rows& rows, const context& ctx) {
  const std::int64_t dim = p.dim;
  split(ctx, p.rows, dim * p.per_token, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t row = begin; row < end; ++row) {
      float* y = p.y + row * dim;
      std::fill_n(y, dim, 0.0F);
      for (std::int64_t i = row * p.per_token; i < (row + 1) * p.per_token; ++i) {
        const float weight = p.weights[i];
        const float* down = rows.down + rows.place[i] * dim;
        for (std::int64_t d = 0; d < dim; ++d) y[d] += weight * down[d];
      }
    }
  });
}

}  // namespace

template <activation_format Format>
std::size_t experts_workspace_bytes(const experts_params<float>& p, int thread_count) {
  return layout(p, products_of<Format>(p), thread_count, nullptr, nullptr);
}

template <activation_format Format>
void experts(const experts_params<float>& p, const context& ctx) {
  if (p.rows == 0) return;
  const products how = products_of<Format>(p);
  grouped_rows rows{};
  layout(p, how, ctx.pool == nullptr ? 1 : ctx.pool->thread_count(), ctx.workspace, &rows);
  sort_rows(p, rows);
  const std::int64_t blocks = cut_blocks(p, rows, how.block);
  const std::int64_t picks = static_cast<std::int64_t>(p.rows) * p.per_token;
  split(ctx, picks, p.dim * k_prepare_work, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      how.in.prepare(p.x + static_cast<std::int64_t>(rows.pick[i] / p.per_token) * p.dim, p.dim,
                     rows.x + static_cast<std::size_t>(i) * how.in_bytes);
    }
  });
  multiply_in(p, how, rows, blocks, ctx);
  split(ctx, picks, p.width * k_prepare_work, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      how.out.prepare(rows.gate + i * p.width, p.width,
                      rows.active + static_cast<std::size_t>(i) * how.out_bytes);
    }
  });
  multiply_out(p, how, rows, blocks, ctx);
  sum_up(p, rows, ctx);
}

template void experts<activation_format::float32>(const experts_params<float>&, const context&);
template void experts<activation_format::narrow>(const experts_params<float>&, const context&);
template std::size_t experts_workspace_bytes<activation_format::float32>(const experts_params<float>&, int);
template std::size_t experts_workspace_bytes<activation_format::narrow>(const experts_params<float>&, int);

}  // namespace weir::kernels::cpu
