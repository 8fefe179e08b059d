// weir-index-bench TRACE [KEYS] [FOLDER]: what the index costs, on one core with KEYS (default 10 M)
// preloaded. `make bench-index` runs it; RESULTS.md keeps its figures and says what the bars are.
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "prefix_index/bench/measures.hpp"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: weir-index-bench TRACE [KEYS] [FOLDER]\n");
    return 2;
  }
  const std::size_t keys = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 10'000'000;
  const std::filesystem::path folder =
      argc > 3 ? std::filesystem::path(argv[3]) : std::filesystem::temp_directory_path() / "weir-index-bench";
  if (keys < 1000) {
    std::fprintf(stderr, "at least 1000 keys\n");
    return 2;
  }
  weir::prefix_index::measure_memory(keys);
  weir::prefix_index::measure_trace(argv[1], keys);
  weir::prefix_index::measure_long_prompt(keys);
  return 0;
}
