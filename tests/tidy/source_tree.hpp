// The project's source files as the tidy test sees them: text, lines, includes, and function bodies found by
// counting braces. Immutable; any thread.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace weir::tidy {

struct source_file {
  std::string path;  // from the repository's root, with '/'
  std::vector<std::string> lines;

  std::string folder() const { return path.substr(0, path.find('/')); }
};

struct function_span {
  int first_line;  // 1-based, where its signature starts
  int line_count;
};

// All C++ files below the folders that hold code, sorted by path.
std::vector<source_file> read_sources(const std::filesystem::path& root);

// Paths in #include "..." lines.
std::vector<std::string> quoted_includes(const source_file& file);

// Functions with a body: a brace opened behind a parameter list, outside any other function.
std::vector<function_span> find_functions(const source_file& file);

// The line without string literals, character literals and comments, so that words in them do not count.
std::string code_of(std::string_view line);

}  // namespace weir::tidy
