#include <algorithm>
#include <vector>

#include "kernels/ref/ops.hpp"

namespace weir::kernels::ref {

namespace {

const double* latent_at(const mla_params<double>& p, std::int32_t sequence, std::int32_t position) {
  const std::int64_t table = static_cast<std::int64_t>(sequence) * p.batch.table_stride;
  const std::int64_t page = p.batch.block_table[table + position / p.page_tokens];
  const std::int64_t row = position % p.page_tokens;
  return static_cast<const double*>(p.pages) + page * p.page_stride + row * (p.rank + p.rope_dim);
}

// Softmax weights of one head's query over positions [0, count).
void attend(const mla_params<double>& p, std::int32_t sequence, std::int32_t count,
            const std::vector<double>& query, std::vector<double>& probability) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(p.nope_dim + p.rope_dim));
  probability.resize(static_cast<std::size_t>(count));
  double largest = -HUGE_VAL;
  for (std::int32_t position = 0; position < count; ++position) {
    const double* latent = latent_at(p, sequence, position);
    double score = 0.0;
    for (std::size_t i = 0; i < query.size(); ++i) score += query[i] * latent[i];
    probability[static_cast<std::size_t>(position)] = score * scale;
    largest = std::max(largest, score * scale);
  }
  double total = 0.0;
  for (double& value : probability) total += value = std::exp(value - largest);
  for (double& value : probability) value /= total;
}

}  // namespace

void mla_store(const mla_store_params<double>& p, const context&) {
  for (std::int32_t s = 0; s < p.batch.sequence_count; ++s) {
    const sequence_range& seq = p.batch.sequences[s];
    for (std::int32_t token = 0; token < seq.count; ++token) {
      const std::int32_t position = seq.position + token;
      const std::int64_t table = static_cast<std::int64_t>(s) * p.batch.table_stride;
      const std::int64_t page = p.batch.block_table[table + position / p.page_tokens];
      const double* from = p.latents + static_cast<std::int64_t>(seq.row + token) * p.width;
      const std::int64_t row = position % p.page_tokens;
      std::copy_n(from, p.width, static_cast<double*>(p.pages) + page * p.page_stride + row * p.width);
    }
  }
}

void mla(const mla_params<double>& p, const context&) {
  std::vector<double> query(static_cast<std::size_t>(p.rank + p.rope_dim));
  std::vector<double> mixed(static_cast<std::size_t>(p.rank));
  std::vector<double> probability;
  for (std::int32_t row = 0; row < p.batch.row_count; ++row) {
    const std::int32_t sequence = p.batch.row_sequence[row];
    const sequence_range& seq = p.batch.sequences[sequence];
    const std::int32_t count = seq.position + (row - seq.row) + 1;
    for (std::int32_t head = 0; head < p.heads; ++head) {
      const std::int64_t query_head = static_cast<std::int64_t>(row) * p.heads + head;
      const double* q = p.q + query_head * (p.nope_dim + p.rope_dim);
      const std::int64_t up_key = static_cast<std::int64_t>(head) * (p.nope_dim + p.value_dim);
      for (std::int32_t r = 0; r < p.rank; ++r) {
        double sum = 0.0;
        for (std::int32_t i = 0; i < p.nope_dim; ++i) sum += q[i] * at(p.kv_b, up_key + i, r);
        query[static_cast<std::size_t>(r)] = sum;
      }
      std::copy_n(q + p.nope_dim, p.rope_dim, query.begin() + p.rank);
      attend(p, sequence, count, query, probability);
      std::fill(mixed.begin(), mixed.end(), 0.0);
      for (std::int32_t position = 0; position < count; ++position) {
        const double* latent = latent_at(p, sequence, position);
        const double weight = probability[static_cast<std::size_t>(position)];
        for (std::size_t r = 0; r < mixed.size(); ++r) mixed[r] += weight * latent[r];
      }
      for (std::int32_t j = 0; j < p.value_dim; ++j) {
        double sum = 0.0;
        for (std::int32_t r = 0; r < p.rank; ++r) {
          sum += mixed[static_cast<std::size_t>(r)] * at(p.kv_b, up_key + p.nope_dim + j, r);
        }
        p.o[query_head * p.value_dim + j] = sum;
      }
    }
  }
}

}  // namespace weir::kernels::ref
