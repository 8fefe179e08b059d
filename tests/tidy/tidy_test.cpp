// Holds the tree to its mechanical habits: the arrows between folders, lengths, listed sources, READMEs,
// banned calls.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "tests/tidy/source_tree.hpp"

namespace weir::tidy {
namespace {

constexpr std::size_t k_file_lines_max = 400;
constexpr int k_function_lines_max = 70;
constexpr std::size_t k_line_columns_max = 110;
constexpr std::size_t k_readme_lines_max = 80;  // one screen, with room for a table

const std::filesystem::path k_root = WEIR_SOURCE_DIR;

const std::vector<source_file>& sources() {
  static const std::vector<source_file> files = read_sources(k_root);
  return files;
}

// A character is one column; only a first byte counts.
std::size_t columns(std::string_view line) {
  return static_cast<std::size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

TEST_CASE("the tree is found") {
  REQUIRE(sources().size() > 50);
}

TEST_CASE("includes follow the arrows between folders") {
  const std::map<std::string, std::set<std::string>> allowed{
      {"kernels", {"kernels"}},
      {"engine", {"engine", "kernels"}},
      {"policy", {"policy"}},
      {"prefix_index", {"prefix_index"}},
      {"gateway", {"gateway", "engine", "policy", "prefix_index"}},
      {"loadtest", {"loadtest", "policy", "prefix_index"}},
  };
  for (const auto& file : sources()) {
    const auto row = allowed.find(file.folder());
    for (const auto& include : quoted_includes(file)) {
      if (include.starts_with("hwy/")) continue;  // Highway's own idiom for headers read once per target
      INFO(file.path << " includes " << include);
      CHECK(std::filesystem::exists(k_root / include));  // rooted at the repository
      if (row != allowed.end()) CHECK(row->second.contains(include.substr(0, include.find('/'))));
    }
  }
}

TEST_CASE("lower folders do not know the upper folders' libraries") {
  const std::map<std::string, std::vector<std::string_view>> banned{
      {"kernels", {"<boost/", "<fmt/", "<spdlog/", "<openssl/", "<rocksdb/", "<simdjson"}},
      {"engine", {"<boost/", "<fmt/", "<spdlog/", "<openssl/", "<rocksdb/", "<yaml-cpp/"}},
      {"policy",
       {"<boost/", "<fmt/", "<spdlog/", "<openssl/", "<rocksdb/", "<simdjson", "<chrono>", "<thread>",
        "<mutex>"}},
      {"prefix_index", {"<boost/", "<fmt/", "<spdlog/", "<openssl/", "<simdjson"}},
  };
  for (const auto& file : sources()) {
    const auto row = banned.find(file.folder());
    if (row == banned.end()) continue;
    for (const auto& line : file.lines) {
      if (!line.starts_with("#include <")) continue;
      for (const auto prefix : row->second) {
        INFO(file.path << ": " << line);
        CHECK(line.find(prefix) == std::string::npos);
      }
    }
  }
}

TEST_CASE("files, functions and lines stay short") {
  for (const auto& file : sources()) {
    INFO(file.path << " has " << file.lines.size() << " lines");
    // Data that a program wrote; nobody reads it line by line.
    const bool is_generated = file.path.find("/generated/") != std::string::npos;
    if (!is_generated) CHECK(file.lines.size() <= k_file_lines_max);
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      if (columns(file.lines[i]) <= k_line_columns_max) continue;
      FAIL_CHECK(file.path << ":" << i + 1 << " has " << columns(file.lines[i]) << " columns");
    }
    for (const auto& function : find_functions(file)) {
      if (function.line_count <= k_function_lines_max) continue;
      FAIL_CHECK(file.path << ":" << function.first_line << " is a function of " << function.line_count
                           << " lines");
    }
  }
}

TEST_CASE("the function finder measures what it should") {
  const source_file file{
      "x.cpp",
      {"namespace a {", "struct s {", "  int f() const { return 1; }", "};", "int g(int x,", "      int y)",
       "{", "  if (x) {", "    return 1;", "  }", "  return y;", "}", "}"}};
  const auto found = find_functions(file);
  REQUIRE(found.size() == 2);
  CHECK(found[0].first_line == 3);
  CHECK(found[0].line_count == 1);
  CHECK(found[1].first_line == 5);
  CHECK(found[1].line_count == 8);
}

TEST_CASE("banned calls have one home or none") {
  struct ban {
    std::string_view what;
    std::string_view home;  // the file that may, or nothing
    std::string_view instead;
  };
  constexpr ban k_bans[] = {
      {"getenv", "gateway/config/environment.cpp", "configuration is a file"},
      {"co_spawn", "gateway/task_group.cpp", "task_group owns every coroutine"},
      {"detached", "", "task_group owns every coroutine"},
      {"std::regex", "", "it backtracks; use PCRE2"},
      {"[=]", "", "list what a lambda captures"},
      {"asm volatile(", "kernels/cuda/device.cuh",
       "an instruction gets a name there and a body in the emulator"},
      {"std::rand(", "", "use a seeded generator"},
      {"strcpy(", "", "use std::string"},
      {"sprintf(", "", "use fmt"},
      {"using namespace std", "", "name what is used"},
  };
  for (const auto& file : sources()) {
    if (file.folder() == "tests") continue;
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      const auto code = code_of(file.lines[i]);
      for (const auto& b : k_bans) {
        if (b.what == "co_spawn" && file.folder() == "loadtest") continue;  // one io_context, one run
        if (file.path == b.home || code.find(b.what) == std::string::npos) continue;
        if (file.lines[i].starts_with("#include")) continue;
        FAIL_CHECK(file.path << ":" << i + 1 << " uses " << b.what << ": " << b.instead);
      }
    }
  }
}

TEST_CASE("a public header says what it is before any code") {
  for (const auto& file : sources()) {
    const bool header = file.path.ends_with(".hpp") || file.path.ends_with(".cuh");
    if (!header || file.path.ends_with("-inl.hpp")) continue;
    INFO(file.path);
    REQUIRE_FALSE(file.lines.empty());
    CHECK(file.lines[0].starts_with("// "));
    CHECK(std::find(file.lines.begin(), file.lines.end(), "#pragma once") != file.lines.end());
  }
}

// All build lists of a top folder as one text.
std::string build_lists(const std::string& folder) {
  std::string out;
  for (auto it = std::filesystem::recursive_directory_iterator(k_root / folder); it != end(it); ++it) {
    if (it->path().filename() == "node_modules") it.disable_recursion_pending();
    const auto name = it->path().filename();
    if (name == "CMakeLists.txt" || name.extension() == ".cmake") out += read_text(it->path());
  }
  return out;
}

TEST_CASE("every source is listed in a build list of its folder") {
  std::map<std::string, std::string> lists;
  for (const auto& file : sources()) {
    if (!file.path.ends_with(".cpp") && !file.path.ends_with(".cu")) continue;
    auto [entry, fresh] = lists.try_emplace(file.folder());
    if (fresh) entry->second = build_lists(file.folder());
    // A fuzz target's list names it without its ending.
    const bool fuzz = file.path.starts_with("tests/fuzz/");
    const std::filesystem::path path(file.path);
    INFO(file.path);
    CHECK(entry->second.find(fuzz ? "(" + path.stem().string() : path.filename().string()) !=
          std::string::npos);
  }
}

TEST_CASE("each folder has a README of one screen") {
  for (const auto* folder :
       {"kernels", "engine", "engine/text", "engine/structure", "policy", "prefix_index", "gateway",
        "gateway/http", "configs", "tests", "tests/clients", "loadtest", "."}) {
    std::ifstream in(k_root / folder / "README.md");
    INFO(folder);
    REQUIRE(in);
    std::size_t line_count = 0;
    for (std::string line; std::getline(in, line);) ++line_count;
    CHECK(line_count > 5);
    CHECK(line_count <= k_readme_lines_max);
  }
}

}  // namespace
}  // namespace weir::tidy
