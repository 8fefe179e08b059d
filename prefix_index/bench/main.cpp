// weir-index-bench TRACE [KEYS] [FOLDER] [PART...]: what the index costs, on one core with KEYS (default 10
// M) preloaded. Parts: trace, long, store, restart, memory; all without one. `make bench-index` runs it;
// RESULTS.md keeps its figures and says what the bars are.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "prefix_index/bench/measures.hpp"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: weir-index-bench TRACE [KEYS] [FOLDER] [PART...]\n");
    return 2;
  }
  const std::size_t keys = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 10'000'000;
  const std::filesystem::path folder =
      argc > 3 ? std::filesystem::path(argv[3]) : std::filesystem::temp_directory_path() / "weir-index-bench";
  if (keys < 1000) {
    std::fprintf(stderr, "at least 1000 keys\n");
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const auto wanted = [&](std::string_view part) {
    return argc <= 4 || std::find(argv + 4, argv + argc, part) != argv + argc;
  };
  if (wanted("trace")) weir::prefix_index::measure_trace(argv[1], keys);
  if (wanted("long")) weir::prefix_index::measure_long_prompt(keys);
  if (wanted("store")) weir::prefix_index::measure_store(folder, keys);
  if (wanted("restart")) weir::prefix_index::measure_restart(folder);
  if (wanted("memory")) weir::prefix_index::measure_memory(keys);
  return 0;
}
