// The KDA recurrence, token by token and by chunks: CUDA's sources, emulated, against the reference.
#include "kernels/cuda/kda_chunk.hpp"
#include "kernels/cuda/kda_config.hpp"
#include "kernels/cuda/table.hpp"
#include "tests/kernels/support.hpp"

namespace {

using namespace weir;
using namespace weir::tests;
using kernels::cuda::k_kda_chunk_count_min;

const auto k_reference = kernels::make_reference_table();
const auto k_cuda = kernels::make_cuda_table(kernels::activation_format::float32);
constexpr double k_recurrent_tolerance = 1e-5;  // roundings of some tokens through the state
// Products by halves of bf16 leave 2^-16 of a term: the sums of a chunk, and of those before it.
constexpr double k_chunk_tolerance = 2e-5;

using part_list = std::vector<test_batch::part>;

struct kda_case {
  part_list parts;
  std::int32_t dim;
  std::int32_t heads = 1;
  std::int64_t gap = 12;  // between slots: what lies there belongs to other layers
  double decay = -1.0;    // mean and spread of its logarithm
  double strong = 0.0;    // share of decays that are a thousand times as strong
};

void check_kda(std::mt19937_64& random, const kda_case& c, double tolerance) {
  INFO(c.parts.size() << " sequences, " << c.heads << " heads of " << c.dim << ", log decay " << c.decay);
  const test_batch batch(random, c.parts, 4);
  const std::int64_t cells = static_cast<std::int64_t>(batch.rows()) * c.heads * c.dim;
  const double unit = 1.0 / std::sqrt(c.dim);
  const both q(random, cells, 0.0, unit);
  const both k(random, cells, 0.0, 1.7 * unit);
  const both v(random, cells);
  both g(random, cells, c.decay, c.decay);
  for (std::size_t i = 0; i < g.wide.size(); ++i) {
    if (static_cast<double>(random() % 1000) < 1000.0 * c.strong)
      g.narrow[i] = std::min(g.narrow[i], -0.1F) * 1000.0F;
    g.wide[i] = g.narrow[i];
  }
  const both beta(random, static_cast<std::int64_t>(batch.rows()) * c.heads, 0.5, 0.5);
  const std::int64_t stride = static_cast<std::int64_t>(c.heads) * c.dim * c.dim + c.gap;
  both state(random, batch.slots() * stride);
  both o = zeros(cells);
  k_reference.kda({q.wide.data(), k.wide.data(), v.wide.data(), g.wide.data(), beta.wide.data(),
                   state.wide.data(), o.wide.data(), batch.view(), c.heads, c.dim, stride},
                  {});
  k_cuda.kda({q.narrow.data(), k.narrow.data(), v.narrow.data(), g.narrow.data(), beta.narrow.data(),
              state.narrow.data(), o.narrow.data(), batch.view(), c.heads, c.dim, stride},
             {});
  check_close(o, tolerance);
  check_close(state, tolerance);
}

}  // namespace

TEST_CASE("cuda: kda token by token, heads of any dim", "[cuda]") {
  std::mt19937_64 random(17);
  for (const auto& parts : awkward_batches()) {
    for (const std::int32_t dim : {1, 7, 32, 33, 64, 100}) {
      check_kda(random, {.parts = parts, .dim = dim, .heads = 2, .gap = 13}, k_recurrent_tolerance);
    }
  }
  check_kda(random, {.parts = {{0, 3}, {4, 1}}, .dim = 512}, k_recurrent_tolerance);
  check_kda(random, {.parts = {{0, 40}}, .dim = 48, .decay = -1000.0}, k_recurrent_tolerance);
}

TEST_CASE("cuda: kda token by token, heads of 128", "[cuda]") {
  std::mt19937_64 random(19);
  for (const auto& parts : awkward_batches()) {
    for (const double decay : {0.0, -1.0, -1000.0}) {
      check_kda(random, {.parts = parts, .dim = 128, .heads = 2, .decay = decay}, k_recurrent_tolerance);
    }
  }
  // Slots that do not begin at whole sixteen bytes.
  check_kda(random, {.parts = {{3, 2}, {0, 20}}, .dim = 128, .gap = 13}, k_recurrent_tolerance);
}

TEST_CASE("cuda: kda by chunks, wherever prompts begin and end", "[cuda]") {
  std::mt19937_64 random(23);
  check_kda(random, {.parts = {{0, 16}}, .dim = 128}, k_chunk_tolerance);
  check_kda(random, {.parts = {{5, 17}, {0, 1}, {9, 15}, {0, 47}}, .dim = 128}, k_chunk_tolerance);
  check_kda(random, {.parts = {{64, 33}}, .dim = 128, .heads = 2}, k_chunk_tolerance);
}

TEST_CASE("cuda: kda by chunks, however fast it forgets", "[cuda]") {
  std::mt19937_64 random(29);
  for (const double decay : {0.0, -0.01, -5.0, -40.0, -1000.0}) {
    check_kda(random, {.parts = {{1, 40}}, .dim = 128, .decay = decay}, k_chunk_tolerance);
  }
  // Channels that forget all at once among others that forget little: sums of logarithms would lose those.
  check_kda(random, {.parts = {{1, 64}}, .dim = 128, .decay = -0.05, .strong = 0.2}, k_chunk_tolerance);
}

TEST_CASE("cuda: a sequence's results do not depend on the others of its batch", "[cuda]") {
  const std::int32_t dim = 128, heads = 1;
  const std::int64_t stride = heads * dim * dim;
  std::mt19937_64 random(31);
  const test_batch batch(random, {{0, 20}, {7, 3}, {2, 18}}, 4);
  const std::int64_t cells = static_cast<std::int64_t>(batch.rows()) * heads * dim;
  const both q(random, cells, 0.0, 0.1), k(random, cells, 0.0, 0.15), v(random, cells),
      g(random, cells, -1.0);
  const both beta(random, static_cast<std::int64_t>(batch.rows()) * heads, 0.5, 0.5);
  both state(random, batch.slots() * stride), o = zeros(cells);
  const both before = state;
  const auto run = [&](const kernels::batch_view& view, both& states, both& out) {
    k_cuda.kda({q.narrow.data(), k.narrow.data(), v.narrow.data(), g.narrow.data(), beta.narrow.data(),
                states.narrow.data(), out.narrow.data(), view, heads, dim, stride},
               {});
  };
  run(batch.view(), state, o);
  both alone_state = before, alone_o = zeros(cells);
  for (std::size_t s = 0; s < batch.sequences.size(); ++s) {
    kernels::batch_view one = batch.view();
    one.sequences += s;
    one.sequence_count = 1;
    one.count_max = batch.sequences[s].count;
    one.context_max = batch.sequences[s].position + one.count_max;
    run(one, alone_state, alone_o);
  }
  CHECK(o.narrow == alone_o.narrow);
  CHECK(state.narrow == alone_state.narrow);
  CHECK(o.narrow != zeros(cells).narrow);
}

TEST_CASE("cuda: kda's launches fit the hardware at every size", "[cuda]") {
  using namespace kernels::cuda;
  for (const std::int32_t sequences : {0, 1, 64, 4096}) {
    for (const std::int32_t heads : {1, 32, 96}) {
      CHECK(fits(kda_fast_shape(sequences, heads)));
      CHECK(fits(kda_chunk_shape(sequences, heads)));
      CHECK((kda_chunk_shape(sequences, heads).grid_x == 0) == (sequences == 0));
      for (const std::int32_t dim : {1, 32, 33, 128, kernels::k_head_dim_max}) {
        const auto shape = kda_any_shape(sequences, heads, dim);
        CHECK(fits(shape));
        CHECK(shape.grid_x == std::int64_t{sequences} * heads * ((dim + 31) / 32));
      }
    }
  }
  // One sequence of 32 heads leaves hardly a multiprocessor without work.
  CHECK(kda_fast_shape(1, 32).grid_x == 128);
}
