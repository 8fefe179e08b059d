#include "loadtest/bench/process_usage.hpp"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

namespace weir::loadtest::bench {

namespace {

namespace fs = std::filesystem;

// The numeric names in a folder: processes or threads.
std::set<int> numbers_in(const fs::path& folder) {
  std::set<int> out;
  std::error_code gone;
  for (auto it = fs::directory_iterator(folder, gone); !gone && it != fs::directory_iterator();
       it.increment(gone)) {
    const auto name = it->path().filename().string();
    int number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error == std::errc{} && end == name.data() + name.size()) out.insert(number);
  }
  return out;
}

int parent_of(int pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/status");
  std::string word;
  int parent = 0;
  while (in >> word) {
    if (word == "PPid:" && in >> parent) return parent;
  }
  return 0;
}

std::set<int> tree_of(int pid) {
  std::set<int> tree{pid};
  const auto all = numbers_in("/proc");
  for (bool grown = true; grown;) {
    grown = false;
    for (const int one : all) {
      if (!tree.contains(one) && tree.contains(parent_of(one))) grown = tree.insert(one).second;
    }
  }
  return tree;
}

}  // namespace

process_usage read_usage(int pid) {
  process_usage out;
  for (const int one : tree_of(pid)) {
    const auto folder = "/proc/" + std::to_string(one);
    for (const int thread : numbers_in(folder + "/task")) {
      std::ifstream in(folder + "/task/" + std::to_string(thread) + "/schedstat");
      double on_cpu_ns = 0;
      if (in >> on_cpu_ns) out.cpu_s += on_cpu_ns * 1e-9;
    }
    std::ifstream status(folder + "/status");
    std::string word;
    std::int64_t kilobytes = 0;
    while (status >> word) {
      if (word == "VmRSS:" && status >> kilobytes) out.rss_bytes += kilobytes << 10;
    }
  }
  return out;
}

}  // namespace weir::loadtest::bench
