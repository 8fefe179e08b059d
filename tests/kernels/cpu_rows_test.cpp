// Row-wise, recurrent and attention operations of the CPU backend against the scalar reference.
#include "tests/kernels/support.hpp"

namespace {

using namespace weir;
using namespace weir::tests;
using kernels::dtype;

const auto k_reference = kernels::make_reference_table();
const auto k_cpu = kernels::make_cpu_table();
constexpr double k_row_tolerance = 2e-6;        // of the largest output: a handful of float32 roundings
constexpr double k_recurrent_tolerance = 1e-5;  // roundings of up to ten tokens through the state
constexpr std::int64_t k_gap =
    13;  // between slots and between pages: what lies there belongs to other layers
constexpr std::int32_t k_dims[] = {1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 64, 80, 100, 128};

// The recurrence of both backends over the same batch; `decay` is the mean and the spread of its logarithm.
void check_kda(std::mt19937_64& random, kernels::thread_pool& pool,
               const std::vector<test_batch::part>& parts, std::int32_t dim,
               const std::pair<double, double>& decay) {
  const std::int32_t heads = 2;
  const test_batch batch(random, parts, 4);
  const std::int64_t cells = static_cast<std::int64_t>(batch.rows()) * heads * dim;
  const double unit = 1.0 / std::sqrt(dim);
  const both q(random, cells, 0.0, unit);
  const both k(random, cells, 0.0, 1.7 * unit);
  const both v(random, cells);
  const both g(random, cells, decay.first, decay.second);
  const both beta(random, batch.rows() * heads, 0.5, 0.5);
  const std::int64_t stride = heads * dim * dim + k_gap;
  both state(random, batch.slots() * stride);
  both o = zeros(cells);
  k_reference.kda({q.wide.data(), k.wide.data(), v.wide.data(), g.wide.data(), beta.wide.data(),
                   state.wide.data(), o.wide.data(), batch.view(), heads, dim, stride},
                  {});
  k_cpu.kda({q.narrow.data(), k.narrow.data(), v.narrow.data(), g.narrow.data(), beta.narrow.data(),
             state.narrow.data(), o.narrow.data(), batch.view(), heads, dim, stride},
            {&pool, nullptr, 0});
  check_close(o, k_recurrent_tolerance);
  check_close(state, k_recurrent_tolerance);
}

}  // namespace

TEST_CASE("rmsnorm", "[kernels]") {
  WEIR_FOR_EACH_INSTRUCTION_SET();
  std::mt19937_64 random(11);
  for (const std::int32_t dim : k_dims) {
    for (const std::int32_t extra : {0, 5}) {
      INFO("dim " << dim << " in rows of " << dim + extra);
      const std::int32_t stride = dim + extra;
      const both weight(random, dim, 1.0, 0.5);
      both x(random, 6L * stride, 0.3, 0.01);
      const both before = x;
      k_reference.rmsnorm({x.wide.data(), weight.narrow.data(), x.wide.data(), 6, dim, stride, 1e-5}, {});
      k_cpu.rmsnorm({x.narrow.data(), weight.narrow.data(), x.narrow.data(), 6, dim, stride, 1e-5}, {});
      check_close(x, k_row_tolerance);
      for (std::int32_t i = dim; i < stride; ++i)
        CHECK(x.narrow[static_cast<std::size_t>(i)] == before.narrow[static_cast<std::size_t>(i)]);
    }
  }
}

TEST_CASE("l2norm, where the epsilon matters and where not", "[kernels]") {
  WEIR_FOR_EACH_INSTRUCTION_SET();
  std::mt19937_64 random(12);
  for (const std::int32_t dim : k_dims) {
    for (const double spread : {1e-4, 2.0}) {
      both x(random, 5L * dim, 0.0, spread);
      k_reference.l2norm({x.wide.data(), 5, dim, 1e-6, 0.25}, {});
      k_cpu.l2norm({x.narrow.data(), 5, dim, 1e-6, 0.25}, {});
      check_close(x, k_row_tolerance);
    }
  }
}

TEST_CASE("gated_norm", "[kernels]") {
  WEIR_FOR_EACH_INSTRUCTION_SET();
  std::mt19937_64 random(13);
  for (const std::int32_t dim : k_dims) {
    for (const double spread : {8.0, 400.0}) {
      both o(random, 7L * dim);
      const both gate(random, 7L * dim, 0.0, spread);
      const both weight(random, dim, 1.0, 0.5);
      k_reference.gated_norm({o.wide.data(), gate.wide.data(), weight.narrow.data(), 7, dim, 1e-5}, {});
      k_cpu.gated_norm({o.narrow.data(), gate.narrow.data(), weight.narrow.data(), 7, dim, 1e-5}, {});
      check_close(o, k_row_tolerance);
    }
  }
}

TEST_CASE("silu_mul and add, also far out", "[kernels]") {
  WEIR_FOR_EACH_INSTRUCTION_SET();
  std::mt19937_64 random(14);
  for (const std::int64_t count : {3, 5, 16, 37, 1000}) {
    for (const double spread : {1.0, 200.0, 1e5}) {
      both gate(random, count, 0.5 * spread, spread);
      const both up(random, count);
      k_reference.silu_mul({gate.wide.data(), up.wide.data(), count}, {});
      k_cpu.silu_mul({gate.narrow.data(), up.narrow.data(), count}, {});
      check_close(gate, k_row_tolerance);
      k_reference.add({gate.wide.data(), up.wide.data(), count}, {});
      k_cpu.add({gate.narrow.data(), up.narrow.data(), count}, {});
      check_close(gate, k_row_tolerance);
    }
  }
}

TEST_CASE("kda_gate, also where softplus saturates", "[kernels]") {
  WEIR_FOR_EACH_INSTRUCTION_SET();
  std::mt19937_64 random(15);
  for (const std::int32_t dim : k_dims) {
    for (const double spread : {3.0, 60.0}) {
      const std::int32_t heads = 3;
      both g(random, 4L * heads * dim, 0.0, spread);
      both beta(random, 4L * heads, 0.0, 5.0);
      const both dt_bias(random, heads * dim, -3.0, 2.0);
      const both a_log(random, heads, 0.5, 1.0);
      k_reference.kda_gate(
          {g.wide.data(), beta.wide.data(), dt_bias.narrow.data(), a_log.narrow.data(), 4, heads, dim}, {});
      k_cpu.kda_gate(
          {g.narrow.data(), beta.narrow.data(), dt_bias.narrow.data(), a_log.narrow.data(), 4, heads, dim},
          {});
      check_close(g, k_row_tolerance);
      check_close(beta, k_row_tolerance);
    }
  }
}

TEST_CASE("kda_gate with a lower bound is another function, not a clamp", "[kernels]") {
  WEIR_FOR_EACH_INSTRUCTION_SET();
  std::mt19937_64 random(19);
  for (const std::int32_t dim : k_dims) {
    for (const double spread : {3.0, 300.0}) {
      const std::int32_t heads = 3;
      both g(random, 4L * heads * dim, 0.0, spread);
      both beta(random, 4L * heads, 0.0, 5.0);
      const both input = g;
      const both dt_bias(random, heads * dim, -1.0, 2.0);
      const both a_log(random, heads, 0.5, 1.0);
      k_reference.kda_gate(
          {g.wide.data(), beta.wide.data(), dt_bias.narrow.data(), a_log.narrow.data(), 4, heads, dim, -5.0},
          {});
      k_cpu.kda_gate({g.narrow.data(), beta.narrow.data(), dt_bias.narrow.data(), a_log.narrow.data(), 4,
                      heads, dim, -5.0},
                     {});
      check_close(g, k_row_tolerance);
      check_close(beta, k_row_tolerance);
      const double z = input.wide[0] + dt_bias.wide[0];
      CHECK(g.wide[0] == Approx(-5.0 / (1.0 + std::exp(-std::exp(a_log.wide[0]) * z))).margin(1e-12));
      CHECK(std::all_of(g.narrow.begin(), g.narrow.end(), [](float v) { return v >= -5.0F && v <= 0.0F; }));
    }
  }
}

TEST_CASE("situ_mul and sigmoid_mul, also far out", "[kernels]") {
  WEIR_FOR_EACH_INSTRUCTION_SET();
  std::mt19937_64 random(20);
  for (const std::int64_t count : {3, 5, 16, 37, 1000}) {
    for (const double spread : {0.01, 1.0, 200.0, 1e5}) {
      const kernels::situ_bounds bounds{4.0, 25.0};
      both gate(random, count, 0.5 * spread, spread);
      both up(random, count, 0.0, spread);
      const double g = gate.wide[0];
      const double expected =
          4.0 * std::tanh(g / 4.0) / (1.0 + std::exp(-g)) * 25.0 * std::tanh(up.wide[0] / 25.0);
      k_reference.situ_mul({gate.wide.data(), up.wide.data(), count, bounds}, {});
      CHECK(gate.wide[0] == Approx(expected));
      k_cpu.situ_mul({gate.narrow.data(), up.narrow.data(), count, bounds}, {});
      check_close(gate, k_row_tolerance);
      k_reference.sigmoid_mul({up.wide.data(), gate.wide.data(), count}, {});
      k_cpu.sigmoid_mul({up.narrow.data(), gate.narrow.data(), count}, {});
      check_close(up, k_row_tolerance);
    }
  }
}

TEST_CASE("short_conv carries its tail in the slots", "[kernels]") {
  WEIR_FOR_EACH_INSTRUCTION_SET();
  std::mt19937_64 random(16);
  for (const auto& parts : awkward_batches()) {
    for (const std::int32_t taps : {1, 2, 4, 16}) {
      for (const std::int32_t channels : {1, 9, 32, 65}) {
        INFO(parts.size() << " sequences, " << taps << " taps, " << channels << " channels");
        const test_batch batch(random, parts, 4);
        const both x(random, static_cast<std::int64_t>(batch.rows()) * channels);
        const both weight(random, taps * channels);
        const std::int64_t stride = (taps - 1) * channels + k_gap;
        both state(random, batch.slots() * stride);
        both y = zeros(static_cast<std::int64_t>(batch.rows()) * channels);
        k_reference.short_conv({x.wide.data(), weight.narrow.data(), state.wide.data(), y.wide.data(),
                                batch.view(), channels, taps, stride},
                               {});
        k_cpu.short_conv({x.narrow.data(), weight.narrow.data(), state.narrow.data(), y.narrow.data(),
                          batch.view(), channels, taps, stride},
                         {});
        check_close(y, k_row_tolerance);
        CHECK(std::equal(state.wide.begin(), state.wide.end(), state.narrow.begin()));
      }
    }
  }
}

TEST_CASE("kda recurrence", "[kernels]") {
  WEIR_FOR_EACH_INSTRUCTION_SET();
  std::mt19937_64 random(17);
  kernels::thread_pool pool(2);
  for (const auto& parts : awkward_batches()) {
    for (const std::int32_t dim : k_dims) {
      INFO(parts.size() << " sequences, dim " << dim);
      check_kda(random, pool, parts, dim, {-1.0, 1.0});
    }
  }
}

TEST_CASE("kda over prompts, wherever they begin and however fast they forget", "[kernels]") {
  WEIR_FOR_EACH_INSTRUCTION_SET();
  std::mt19937_64 random(23);
  kernels::thread_pool pool(2);
  const std::vector<std::vector<test_batch::part>> batches = {
      {{0, 16}}, {{0, 53}, {16, 33}}, {{5, 40}, {1, 1}, {31, 18}}};
  for (const auto& parts : batches) {
    for (const std::int32_t dim : {16, 48, 128}) {
      for (const double forgets : {0.0, -1.0, -40.0, -1000.0}) {
        INFO(parts.size() << " sequences, dim " << dim << ", log decay " << forgets);
        check_kda(random, pool, parts, dim, {forgets, forgets});
      }
    }
  }
}

TEST_CASE("mla_store and mla over pages", "[kernels]") {
  WEIR_FOR_EACH_INSTRUCTION_SET();
  std::mt19937_64 random(18);
  struct row {
    std::int32_t heads, nope, rope, value, rank, page_tokens;
  };
  const row rows[] = {
      {1, 1, 0, 1, 1, 1}, {2, 16, 8, 16, 32, 4}, {3, 33, 17, 29, 50, 5}, {4, 128, 64, 128, 64, 16}};
  for (const row& r : rows) {
    for (const auto& parts : awkward_batches()) {
      for (const dtype type : {dtype::f32, dtype::bf16, dtype::f16}) {
        INFO(parts.size() << " sequences, rank " << r.rank << ", pages of " << r.page_tokens);
        const test_batch batch(random, parts, r.page_tokens);
        const std::int32_t width = r.rank + r.rope;
        const std::int64_t stride = r.page_tokens * width + k_gap;
        both pages(random, batch.page_count * stride);
        const both latents(random, static_cast<std::int64_t>(batch.rows()) * width);
        const both q(random, static_cast<std::int64_t>(batch.rows()) * r.heads * (r.nope + r.rope), 0.0, 0.5);
        const stored_matrix kv_b(random, type, r.heads * (r.nope + r.value), r.rank);
        both o = zeros(static_cast<std::int64_t>(batch.rows()) * r.heads * r.value);
        k_reference.mla_store(
            {latents.wide.data(), pages.wide.data(), batch.view(), width, r.page_tokens, stride}, {});
        k_cpu.mla_store(
            {latents.narrow.data(), pages.narrow.data(), batch.view(), width, r.page_tokens, stride}, {});
        REQUIRE(std::equal(pages.wide.begin(), pages.wide.end(), pages.narrow.begin()));
        k_reference.mla({q.wide.data(), kv_b.view, pages.wide.data(), o.wide.data(), batch.view(), r.heads,
                         r.nope, r.rope, r.value, r.rank, r.page_tokens, stride},
                        {});
        const kernels::mla_params<float> p{q.narrow.data(), kv_b.view,     pages.narrow.data(),
                                           o.narrow.data(), batch.view(),  r.heads,
                                           r.nope,          r.rope,        r.value,
                                           r.rank,          r.page_tokens, stride};
        kernels::thread_pool pool(3);
        const guarded_context ctx(pool, k_cpu.mla_workspace_bytes(p, 3));
        k_cpu.mla(p, ctx.get());
        check_close(o, k_recurrent_tolerance);
        ctx.check_guards();
      }
    }
  }
}
