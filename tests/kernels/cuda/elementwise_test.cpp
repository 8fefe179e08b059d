// Operations on two equal arrays: CUDA's sources, emulated, against the scalar reference.
#include "kernels/cuda/table.hpp"
#include "tests/kernels/support.hpp"

namespace {

using namespace weir;
using namespace weir::tests;

const auto k_reference = kernels::make_reference_table();
const auto k_cuda = kernels::make_cuda_table(kernels::activation_format::float32);
constexpr double k_row_tolerance = 2e-6;  // of the largest output: a handful of float32 roundings

// An operand that begins `offset` floats behind an address of whole sixteen bytes.
struct shifted {
  std::vector<float> memory;
  std::size_t offset;

  shifted(const both& values, std::size_t by) : memory(by, 0.0F), offset(by) {
    memory.insert(memory.end(), values.narrow.begin(), values.narrow.end());
  }
  float* data() { return memory.data() + offset; }
  void copy_to(both& values) const {
    values.narrow.assign(memory.begin() + static_cast<std::ptrdiff_t>(offset), memory.end());
  }
};

}  // namespace

TEST_CASE("cuda: silu_mul, situ_mul, sigmoid_mul and add, also far out and unaligned", "[cuda]") {
  std::mt19937_64 random(14);
  for (const std::int64_t count : {1, 3, 4, 5, 37, 1000, 2051}) {
    for (const double spread : {0.01, 1.0, 200.0, 1e5}) {
      for (const std::size_t offset : {0, 1}) {
        INFO(count << " values of " << spread << " at offset " << offset);
        const kernels::situ_bounds bounds{4.0, 25.0};
        both x(random, count, 0.5 * spread, spread);
        const both y(random, count, 0.1, spread);
        shifted other(y, offset);
        const auto check = [&](auto reference, auto cuda, auto... more) {
          both out = x;
          shifted mine(x, offset);
          reference({out.wide.data(), y.wide.data(), count, more...}, {});
          cuda({mine.data(), other.data(), count, more...}, {});
          mine.copy_to(out);
          double largest = 0.0;
          for (const double value : out.wide) largest = std::max(largest, std::fabs(value));
          for (std::size_t i = 0; i < out.wide.size(); ++i) {
            CHECK(std::fabs(out.wide[i] - static_cast<double>(out.narrow[i])) <=
                  k_row_tolerance * std::max(largest, 1.0));
          }
          return out;
        };
        check(k_reference.silu_mul, k_cuda.silu_mul);
        check(k_reference.situ_mul, k_cuda.situ_mul, bounds);
        check(k_reference.sigmoid_mul, k_cuda.sigmoid_mul);
        check(k_reference.add, k_cuda.add);
      }
    }
  }
}
