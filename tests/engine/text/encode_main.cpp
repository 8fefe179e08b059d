// weir_encode DIR: a tokenizer behind pipes, for differential tests against other implementations.
// Reads requests "<mode> <bytes>\n" + that many bytes from stdin, where mode is p (plain), s (special tokens become ids) or
// t (time: prints the microseconds of one plain encode); answers one line of space-separated ids each.
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "engine/text/tokenizer.hpp"

namespace {

bool read_request(char& mode, std::string& text) {
  std::size_t bytes = 0;
  if (std::scanf("%c %zu", &mode, &bytes) != 2 || std::getchar() != '\n') return false;
  text.resize(bytes);
  return std::fread(text.data(), 1, bytes, stdin) == bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto tok = weir::engine::text::tokenizer::load(argv[1]);
  if (!tok) {
    std::fprintf(stderr, "%s\n", tok.error().detail.c_str());
    return 1;
  }
  char mode = 0;
  std::string text;
  std::vector<std::int32_t> ids;
  while (read_request(mode, text)) {
    ids.clear();
    const auto start = std::chrono::steady_clock::now();
    mode == 's' ? (*tok)->encode_with_specials(text, ids) : (*tok)->encode(text, ids);
    const auto spent = std::chrono::steady_clock::now() - start;
    if (mode == 't') ids.assign(1, static_cast<std::int32_t>(std::chrono::duration_cast<std::chrono::microseconds>(spent).count()));
    std::string line;
    for (const auto id : ids) line += std::to_string(id) + ' ';
    line.push_back('\n');
    std::fwrite(line.data(), 1, line.size(), stdout);
    std::fflush(stdout);
  }
  return 0;
}
