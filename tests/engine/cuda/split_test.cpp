// Models divided among emulated devices, a process each, which speak by NCCL's calls: one device's logits,
// and all ranks make the same calls in the same order.
#include <fstream>
#include <iterator>

#include "engine/cuda/cuda_backend.hpp"
#include "tests/cuda_emulator/nccl.h"
#include "tests/engine/parallel/split_case.hpp"

namespace {

using namespace weir::tests;
using namespace weir::tests::split;

const fs::path k_root = WEIR_SOURCE_DIR;

std::string read_file(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

void check_devices(const fs::path& model, int ranks, split_kind split, double tolerance) {
  weir::engine::cuda::link_backend();
  const fs::path dir = fs::temp_directory_path() / group_name();
  fs::create_directories(dir);
  const auto calls_of = [&dir](int rank) { return dir / ("calls-" + std::to_string(rank)); };
  split_case one{ranks, split, backend_kind::cuda, tolerance};
  one.at_end = [&calls_of](int rank) {
    std::ofstream out(calls_of(rank));
    for (const std::string& call : cuda_emulator::nccl_calls()) out << call << "\n";
  };
  check_case(k_root / model, one);
  const std::string first = read_file(calls_of(0));
  CHECK(std::count(first.begin(), first.end(), '\n') > 10);
  for (int rank = 1; rank < ranks; ++rank) CHECK(read_file(calls_of(rank)) == first);
  fs::remove_all(dir);
}

}  // namespace

TEST_CASE("Kimi-Linear's fixture divided among devices gives one device's logits", "[cuda]") {
  check_devices("tests/data/kimi-linear-a", 2, split_kind::tensor, 1e-4);
  check_devices("tests/data/kimi-linear-a", 2, split_kind::expert, 1e-4);
}

TEST_CASE("Kimi K3's fixture divided among devices gives one device's logits", "[cuda]") {
  check_devices("tests/data/kimi-k3-a", 2, split_kind::tensor, 5e-4);
#if !defined(__SANITIZE_ADDRESS__)
  check_devices("tests/data/kimi-k3-a", 4, split_kind::expert, 5e-4);
#endif
}
