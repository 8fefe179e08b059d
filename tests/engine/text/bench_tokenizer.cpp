// weir_bench_tokenizer DIR FILE...: MiB for each second of processor time of encoding each file on one core,
// with the tokenizer of DIR, the best of some rounds. Nothing is remembered between texts, so every text is
// new. Beside it stand what reading the text costs (a checksum of its bytes) and a plain implementation of
// the same ids: the same pieces, tokens in a std::unordered_map, and the lowest pair searched anew for each
// merge. Its ids must be the same.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iterator>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>
#include <unordered_map>

#include "engine/text/pretokenizer.hpp"
#include "engine/text/tokenizer.hpp"

namespace {

using namespace weir::engine::text;

constexpr int k_rounds = 5;

class plain_bpe {
 public:
  plain_bpe(const tokenizer& tok, split_pattern pattern) : pretokenizer_(pattern) {
    for (std::int32_t id = 0; id < tok.vocab_size(); ++id) {
      if (!tok.is_special(id)) ranks_.emplace(tok.token_bytes(id), id);
    }
  }

  void encode(std::string_view text, std::vector<std::int32_t>& out) const {
    while (!text.empty()) {
      const std::size_t bytes = pretokenizer_.first_piece_bytes(text);
      encode_piece(text.substr(0, bytes), out);
      text.remove_prefix(bytes);
    }
  }

 private:
  std::int32_t rank(std::string_view bytes) const {
    const auto found = ranks_.find(std::string(bytes));
    return found == ranks_.end() ? std::numeric_limits<std::int32_t>::max() : found->second;
  }

  void encode_piece(std::string_view piece, std::vector<std::int32_t>& out) const {
    if (const auto whole = ranks_.find(std::string(piece)); whole != ranks_.end()) {
      return out.push_back(whole->second);
    }
    std::vector<std::string_view> parts;
    for (std::size_t i = 0; i < piece.size(); ++i) parts.push_back(piece.substr(i, 1));
    for (;;) {
      std::int32_t lowest = std::numeric_limits<std::int32_t>::max();
      std::size_t at = 0;
      for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
        const std::int32_t r = rank({parts[i].data(), parts[i].size() + parts[i + 1].size()});
        if (r < lowest) {
          lowest = r;
          at = i;
        }
      }
      if (lowest == std::numeric_limits<std::int32_t>::max()) break;
      parts[at] = {parts[at].data(), parts[at].size() + parts[at + 1].size()};
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
    for (const auto part : parts) out.push_back(rank(part));
  }

  pretokenizer pretokenizer_;
  std::unordered_map<std::string, std::int32_t> ranks_;
};

template <class F>
double mib_per_s(std::size_t bytes, int rounds, F&& run) {
  double best_s = std::numeric_limits<double>::max();
  for (int round = 0; round < rounds; ++round) {
    const std::clock_t start = std::clock();
    run();
    best_s = std::min(best_s, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return static_cast<double>(bytes) / (1 << 20) / best_s;
}

bool print_row(const tokenizer& tok, const plain_bpe& plain, const char* path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  std::vector<std::int32_t> ids, plain_ids;
  volatile std::uint64_t sum = 0;
  const double read = mib_per_s(text.size(), k_rounds,
                                [&] { sum = std::accumulate(text.begin(), text.end(), std::uint64_t{0}); });
  const double encode = mib_per_s(text.size(), k_rounds, [&] {
    ids.clear();
    tok.encode(text, ids);
  });
  const double baseline = mib_per_s(text.size(), 1, [&] { plain.encode(text, plain_ids); });
  const std::string_view name = std::string_view(path).substr(std::string_view(path).rfind('/') + 1);
  std::printf("%-14.*s %8.2f %12zu %12.0f %12.1f %12.1f %9.1fx\n", static_cast<int>(name.size()), name.data(),
              static_cast<double>(text.size()) / (1 << 20), ids.size(), read, baseline, encode,
              encode / baseline);
  if (ids == plain_ids) return true;
  std::fprintf(stderr, "%s: the ids differ\n", path);
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const auto tok = tokenizer::load(argv[1]);
  if (!tok) {
    std::fprintf(stderr, "%s\n", tok.error().detail.c_str());
    return 1;
  }
  // Kimi's cuts at 400,000 characters and long runs are not in the plain one, so only a named encoding
  // compares.
  const plain_bpe plain(**tok, split_pattern::o200k);
  std::printf("%-14s %8s %12s %12s %12s %12s %10s\n", "text", "MiB", "tokens", "read MiB/s", "plain MiB/s",
              "weir MiB/s", "faster");
  bool same = true;
  for (int i = 2; i < argc; ++i) same = print_row(**tok, plain, argv[i]) && same;
  return same ? 0 : 1;
}
