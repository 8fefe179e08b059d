#include "engine/text/tokenizer.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "engine/text/bpe_model.hpp"
#include "engine/text/hash_bytes.hpp"
#include "engine/text/pretokenizer.hpp"
#include "engine/text/safe_cut.hpp"
#include "engine/text/text_splitter.hpp"
#include "engine/text/tokenizer_files.hpp"
#include "engine/text/unicode_classes.hpp"
#include "engine/text/utf8.hpp"

namespace weir::engine::text {
namespace {

// Slices that a first-level cache holds together with their ids.
constexpr std::size_t k_slice_bytes = 8192;
constexpr std::size_t k_pieces_ahead = 16;

class kimi_tokenizer final : public tokenizer {
 public:
  kimi_tokenizer(bpe_model ranks, std::vector<std::string> specials)
      : ranks_(std::move(ranks)), specials_(std::move(specials)), pretokenizer_(classes_) {
    for (std::size_t i = 0; i < specials_.size(); ++i) by_content_.push_back(static_cast<std::int32_t>(i));
    std::sort(by_content_.begin(), by_content_.end(),
              [this](std::int32_t a, std::int32_t b) { return specials_[a] < specials_[b]; });
    for (std::int32_t id = 0; id < vocab_size(); ++id) {
      const std::string_view bytes = token_bytes(id);
      fingerprint_ = hash_bytes(bytes, fingerprint_ + bytes.size());
    }
  }

  void encode_slice(std::string_view slice, text_state& state,
                    std::vector<std::int32_t>& out) const override {
    text_splitter splitter(classes_, slice, state);
    for (auto part = splitter.next(); !part.empty(); part = splitter.next()) encode_part(part, out);
    state = splitter.state();
  }

  std::size_t safe_cut(std::string_view text, std::size_t from) const override {
    return find_safe_cut(classes_, text, from);
  }

  void encode_with_specials(std::string_view text, std::vector<std::int32_t>& out) const override {
    text_splitter splitter(classes_, text);
    for (auto part = splitter.next(); !part.empty(); part = splitter.next()) {
      std::size_t plain = 0;
      for (std::size_t at = 0; at < part.size();) {
        const auto special = special_at(part.substr(at));
        if (special < 0) {
          ++at;
          continue;
        }
        encode_part(part.substr(plain, at - plain), out);
        out.push_back(ranks_.size() + special);
        at += specials_[special].size();
        plain = at;
      }
      encode_part(part.substr(plain), out);
    }
  }

  std::optional<std::int32_t> special_id(std::string_view content) const override {
    const auto special = special_at(content);
    if (special < 0 || specials_[special].size() != content.size()) return std::nullopt;
    return ranks_.size() + special;
  }

  bool is_special(std::int32_t id) const noexcept override {
    return id >= ranks_.size() && id < vocab_size();
  }

  std::string_view token_bytes(std::int32_t id) const noexcept override {
    if (id < 0 || id >= vocab_size()) return {};
    return id < ranks_.size() ? ranks_.bytes(id) : std::string_view(specials_[id - ranks_.size()]);
  }

  std::uint64_t fingerprint() const noexcept override { return fingerprint_; }

  std::int32_t vocab_size() const noexcept override {
    return ranks_.size() + static_cast<std::int32_t>(specials_.size());
  }

 private:
  // The longest special token that `text` begins with, as an index of specials_, or -1. Narrows the sorted
  // contents byte by byte, so ordinary text costs one comparison.
  std::int32_t special_at(std::string_view text) const {
    std::int32_t found = -1;
    auto first = by_content_.begin();
    auto last = by_content_.end();
    for (std::size_t depth = 0; first != last; ++depth) {
      if (specials_[*first].size() == depth) found = *first++;
      if (depth == text.size()) break;
      const auto byte_of = [&](std::int32_t i) { return static_cast<std::uint8_t>(specials_[i][depth]); };
      const auto byte = static_cast<std::uint8_t>(text[depth]);
      first = std::partition_point(first, last, [&](std::int32_t i) { return byte_of(i) < byte; });
      last = std::partition_point(first, last, [&](std::int32_t i) { return byte_of(i) == byte; });
    }
    return found;
  }

  // Invalid bytes are their own tokens and end the text on both sides of them.
  void encode_part(std::string_view text, std::vector<std::int32_t>& out) const {
    std::size_t valid = 0;
    for (std::size_t at = 0; at < text.size();) {
      at += ascii_bytes(text.substr(at));
      if (at == text.size()) break;
      const utf8_step step = next_char(text.substr(at, 4));
      if (step.status != utf8_status::valid) {
        encode_valid(text.substr(valid, at - valid), out);
        for (std::size_t i = 0; i < step.size; ++i) ranks_.encode_piece(text.substr(at + i, 1), out);
        valid = at + step.size;
      }
      at += step.size;
    }
    encode_valid(text.substr(valid), out);
  }

  void encode_valid(std::string_view text, std::vector<std::int32_t>& out) const {
    // A few pieces are cut ahead of their lookups, which then find their memory in the cache.
    std::array<token_table::prepared, k_pieces_ahead> ahead;
    while (!text.empty()) {
      std::size_t count = 0;
      for (; count < ahead.size() && !text.empty(); ++count) {
        const std::size_t bytes = pretokenizer_.first_piece_bytes(text);
        ahead[count] = ranks_.prepare(text.substr(0, bytes));
        text.remove_prefix(bytes);
      }
      for (std::size_t i = 0; i < count; ++i) ranks_.encode_piece(ahead[i], out);
    }
  }

  bpe_model ranks_;
  std::vector<std::string> specials_;     // [specials], id - ranks_.size()
  std::vector<std::int32_t> by_content_;  // indexes of specials_, sorted by their bytes
  unicode_classes classes_;
  pretokenizer pretokenizer_;
  std::uint64_t fingerprint_ = 0;
};

result<std::string> read_file(const std::filesystem::path& path, std::size_t bytes_max) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail(errc::io, "cannot open " + path.string());
  in.seekg(0, std::ios::end);
  const auto size = static_cast<std::streamoff>(in.tellg());
  if (size < 0) return fail(errc::io, "cannot read " + path.string());
  if (static_cast<std::uintmax_t>(size) > bytes_max) {
    return fail(errc::bad_model, path.string() + " is larger than " + std::to_string(bytes_max) + " bytes");
  }
  std::string bytes(static_cast<std::size_t>(size), '\0');
  in.seekg(0);
  if (!in.read(bytes.data(), size)) return fail(errc::io, "cannot read " + path.string());
  return bytes;
}

}  // namespace

result<std::shared_ptr<const tokenizer>> make_tokenizer(std::string_view rank_file,
                                                        std::string_view config_file) {
  const auto tokens = parse_rank_file(rank_file);
  if (!tokens) return std::unexpected(tokens.error());
  auto ranks = bpe_model::of_ranks(*tokens);
  if (!ranks) return fail(ranks.error().code, "tiktoken.model: " + ranks.error().detail);
  auto specials = parse_tokenizer_config(config_file, ranks->size());
  if (!specials) return std::unexpected(specials.error());
  return std::make_shared<const kimi_tokenizer>(std::move(*ranks), std::move(*specials));
}

void tokenizer::encode(std::string_view text, std::vector<std::int32_t>& out) const {
  text_state state;
  while (!text.empty()) {
    const std::size_t bytes = text.size() <= k_slice_bytes ? text.size() : safe_cut(text, k_slice_bytes);
    encode_slice(text.substr(0, bytes), state, out);
    text.remove_prefix(bytes);
  }
}

result<std::shared_ptr<const tokenizer>> tokenizer::load(const std::filesystem::path& dir) {
  const auto rank_file = read_file(dir / "tiktoken.model", k_rank_file_bytes_max);
  if (!rank_file) return std::unexpected(rank_file.error());
  const auto config_file = read_file(dir / "tokenizer_config.json", k_config_file_bytes_max);
  if (!config_file) return std::unexpected(config_file.error());
  auto made = make_tokenizer(*rank_file, *config_file);
  if (!made) return fail(made.error().code, dir.string() + ": " + made.error().detail);
  return made;
}

}  // namespace weir::engine::text
