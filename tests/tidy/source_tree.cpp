#include "tests/tidy/source_tree.hpp"

#include <algorithm>
#include <fstream>

namespace weir::tidy {

namespace {

constexpr std::string_view k_folders[] = {"kernels", "engine",   "policy", "prefix_index",
                                          "gateway", "loadtest", "tests"};

bool is_source(const std::filesystem::path& path) {
  return path.extension() == ".cpp" || path.extension() == ".hpp" || path.extension() == ".cu" ||
         path.extension() == ".cuh";
}

// A brace opens a function's body when the code before it, back to the last statement's end, has a parameter
// list and is neither a type, a namespace nor an initializer.
bool opens_function(const std::string& before) {
  if (before.find('(') == std::string::npos) return false;
  for (const std::string_view word : {"namespace ", "class ", "struct ", "enum ", "union "}) {
    if (before.starts_with(word)) return false;
  }
  const auto last = before.find_last_not_of(' ');
  return last != std::string::npos && before[last] != '=' && before[last] != ',' && before[last] != '(';
}

// The last character of a raw string whose delimiter begins at `at`; of the line, where it goes on behind it.
std::size_t end_of_raw(std::string_view line, std::size_t at) {
  const auto open = std::min(line.find('(', at), line.size());
  const auto close = ")" + std::string(line.substr(at, open - at)) + "\"";
  const auto end = line.find(close, open);
  return end == line.npos ? line.size() : end + close.size() - 1;
}

}  // namespace

std::vector<source_file> read_sources(const std::filesystem::path& root) {
  std::vector<source_file> files;
  for (const auto folder : k_folders) {
    for (auto it = std::filesystem::recursive_directory_iterator(root / folder); it != end(it); ++it) {
      if (it->path().filename() == "node_modules") it.disable_recursion_pending();
      if (!it->is_regular_file() || !is_source(it->path())) continue;
      source_file file{std::filesystem::relative(it->path(), root).generic_string(), {}};
      std::ifstream in(it->path());
      for (std::string line; std::getline(in, line);) file.lines.push_back(std::move(line));
      files.push_back(std::move(file));
    }
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return files;
}

std::vector<std::string> quoted_includes(const source_file& file) {
  constexpr std::string_view k_start = "#include \"";
  std::vector<std::string> out;
  for (const auto& line : file.lines) {
    if (!line.starts_with(k_start)) continue;
    out.push_back(line.substr(k_start.size(), line.find('"', k_start.size()) - k_start.size()));
  }
  return out;
}

std::string code_of(std::string_view line) {
  std::string out;
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != 0) {
      if (c == '\\') {
        ++i;
      } else if (c == quote) {
        quote = 0;
      }
      continue;
    }
    if (c == '/' && i + 1 < line.size() && line[i + 1] == '/') break;
    if (c == 'R' && i + 1 < line.size() && line[i + 1] == '"') {
      i = end_of_raw(line, i + 2);
      continue;
    }
    // An apostrophe between digits separates them.
    const bool separator = c == '\'' && i > 0 && std::isalnum(static_cast<unsigned char>(line[i - 1])) != 0;
    if ((c == '"' || c == '\'') && !separator) {
      quote = c;
    } else {
      out.push_back(c);
    }
  }
  return out;
}

std::vector<function_span> find_functions(const source_file& file) {
  std::vector<function_span> out;
  std::string statement;  // code since the last ';', '{' or '}'
  int statement_line = 1;
  int depth = 0;
  int function_depth = -1;
  int function_line = 0;
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    const std::string code = code_of(file.lines[i]);
    if (code.starts_with('#')) continue;
    for (const char c : code) {
      if (c == '{') {
        if (function_depth < 0 && opens_function(statement)) {
          function_depth = depth;
          function_line = statement_line;
        }
        ++depth;
        statement.clear();
      } else if (c == '}') {
        --depth;
        statement.clear();
        if (depth != function_depth) continue;
        out.push_back({function_line, static_cast<int>(i) + 2 - function_line});
        function_depth = -1;
      } else if (c == ';') {
        statement.clear();
      } else if (!statement.empty() || c != ' ') {
        if (statement.empty()) statement_line = static_cast<int>(i) + 1;
        statement.push_back(c);
      }
    }
  }
  return out;
}

}  // namespace weir::tidy
