#include "loadtest/arrivals.hpp"

#include <cassert>
#include <random>

namespace weir::loadtest {

std::vector<double> poisson_arrivals_s(std::size_t count, double rate_per_s, std::uint64_t seed) {
  assert(rate_per_s > 0);
  std::mt19937_64 random(seed);
  std::exponential_distribution<double> gap(rate_per_s);
  std::vector<double> out;
  out.reserve(count);
  double at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    at += gap(random);
    out.push_back(at);
  }
  return out;
}

}  // namespace weir::loadtest
