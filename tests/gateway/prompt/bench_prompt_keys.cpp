// weir_bench_prompt_keys DIR FILE: what keying a prompt of 400 KB costs when its text is new, and when all or
// all but its end was seen before, with the tokenizer of DIR and text of FILE.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <string>

#include "gateway/prompt/prompt_keys.hpp"

namespace {

using namespace weir;
using weir::gateway::prompt_keys;

constexpr std::size_t k_prompt_bytes = 400'000;
constexpr int k_rounds = 50;

void print_row(const char* name, const std::function<prompt_keys(int)>& key) {
  double best_ms = std::numeric_limits<double>::max(), sum_ms = 0;
  prompt_keys last;
  for (int round = 0; round < k_rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    last = key(round);
    const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
    best_ms = std::min(best_ms, spent.count());
    sum_ms += spent.count();
  }
  std::printf("%-34s best %7.3f ms, mean %7.3f ms; %6.1f KB tokenized, %zu keys\n", name, best_ms,
              sum_ms / k_rounds, static_cast<double>(last.tokenized_bytes) / 1e3, last.keys.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const auto tok = engine::text::tokenizer::load(argv[1]);
  std::ifstream in(argv[2], std::ios::binary);
  const std::string text = std::string(std::istreambuf_iterator<char>(in), {}).substr(0, k_prompt_bytes);
  if (!tok || text.size() < k_prompt_bytes) {
    std::fprintf(stderr, "%s\n", tok ? "the file is too short" : tok.error().detail.c_str());
    return 1;
  }
  static constexpr std::array<std::byte, 16> k_salt{};
  const auto root = [](std::string_view scope) {
    return prefix_index::root_key({.salt = k_salt, .model = "m", .adapter = "", .scope = scope});
  };
  engine::text::prompt_segments whole, longer;
  whole.view(text);
  longer.view(text);
  longer.own("\n\nOne more question, as a next turn would ask it. " + text.substr(0, 2'000));
  gateway::prompt_memory memory;
  print_row("all new", [&](int round) {
    return gateway::key_prompt(&memory, **tok, whole.list, root(std::to_string(round)));
  });
  print_row("all known", [&](int) { return gateway::key_prompt(&memory, **tok, whole.list, root("0")); });
  print_row("a next turn", [&](int round) {
    return gateway::key_prompt(&memory, **tok, longer.list, root(std::to_string(round % 40 + 1)));
  });
  print_row("keyed by text, no tokenizer", [&](int) { return gateway::key_text(root("0"), text); });
  return 0;
}
