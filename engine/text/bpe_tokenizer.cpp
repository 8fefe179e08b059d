#include "engine/text/bpe_tokenizer.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "engine/text/hash_bytes.hpp"
#include "engine/text/nfc.hpp"
#include "engine/text/safe_cut.hpp"
#include "engine/text/text_splitter.hpp"
#include "engine/text/utf8.hpp"

namespace weir::engine::text {
namespace {

// Pieces that are cut ahead of their lookups, which then find their memory in the cache.
constexpr std::size_t k_pieces_ahead = 16;

class bpe_tokenizer final : public tokenizer {
 public:
  explicit bpe_tokenizer(bpe_parts parts)
      : model_(std::move(parts.model)),
        pretokenizer_(parts.pattern),
        added_(by_id(std::move(parts.added))),
        all_(added_, true),
        plain_(added_, false),
        published_cuts_(parts.published_cuts),
        nfc_(parts.nfc ? std::make_unique<const nfc_normalizer>() : nullptr),
        fingerprint_(parts.fingerprint_seed ^ static_cast<std::uint64_t>(parts.pattern)) {
    vocab_size_ = std::max(model_.size(), added_.empty() ? 0 : added_.back().id + 1);
    for (std::int32_t id = 0; id < vocab_size_; ++id) {
      fingerprint_ = hash_bytes(token_bytes(id), fingerprint_);
    }
  }

  bpe_tokenizer(const bpe_tokenizer&) = delete;  // the indexes point into added_
  bpe_tokenizer& operator=(const bpe_tokenizer&) = delete;

  void encode_slice(std::string_view slice, text_state& state,
                    std::vector<std::int32_t>& out) const override {
    if (!published_cuts_) return encode_around(plain_, slice, out);
    text_splitter splitter(pretokenizer_.classes(), slice, state);
    for (auto part = splitter.next(); !part.empty(); part = splitter.next()) encode_around(plain_, part, out);
    state = splitter.state();
  }

  std::size_t safe_cut(std::string_view text, std::size_t from) const override {
    std::size_t at = find_safe_cut(pretokenizer_.classes(), text, from);
    while (at < text.size() && in_added_token(text, at)) {
      at = find_safe_cut(pretokenizer_.classes(), text, at + 1);
    }
    return at;
  }

  void encode_with_specials(std::string_view text, std::vector<std::int32_t>& out) const override {
    if (!published_cuts_) return encode_around(all_, text, out);
    text_splitter splitter(pretokenizer_.classes(), text);
    for (auto part = splitter.next(); !part.empty(); part = splitter.next()) encode_around(all_, part, out);
  }

  std::optional<std::int32_t> special_id(std::string_view content) const override {
    const added_token* found = all_.longest_at(content);
    if (found == nullptr || !found->special || found->content.size() != content.size()) return std::nullopt;
    return found->id;
  }

  bool is_special(std::int32_t id) const noexcept override {
    const added_token* found = added_of(id);
    return found != nullptr && found->special;
  }

  std::string_view token_bytes(std::int32_t id) const noexcept override {
    if (id < 0 || id >= vocab_size_) return {};
    if (const added_token* found = added_of(id)) return found->content;
    return id < model_.size() ? model_.bytes(id) : std::string_view{};
  }

  std::int32_t vocab_size() const noexcept override { return vocab_size_; }
  std::uint64_t fingerprint() const noexcept override { return fingerprint_; }

 private:
  static std::vector<added_token> by_id(std::vector<added_token> tokens) {
    std::sort(tokens.begin(), tokens.end(),
              [](const added_token& a, const added_token& b) { return a.id < b.id; });
    return tokens;
  }

  const added_token* added_of(std::int32_t id) const noexcept {
    const auto found = std::partition_point(added_.begin(), added_.end(),
                                            [id](const added_token& token) { return token.id < id; });
    return found != added_.end() && found->id == id ? &*found : nullptr;
  }

  // Whether an added token may stand over `at`.
  bool in_added_token(std::string_view text, std::size_t at) const {
    const std::size_t reach = std::min(at, plain_.bytes_max());
    for (std::size_t first = at - reach; first < at; ++first) {
      const added_token* found = plain_.longest_at(text.substr(first));
      if (found != nullptr && first + found->content.size() > at) return true;
    }
    return false;
  }

  void encode_around(const content_index& index, std::string_view text,
                     std::vector<std::int32_t>& out) const {
    for (;;) {
      const added_token* found = nullptr;
      const std::size_t at = index.first_match(text, found);
      encode_part(text.substr(0, at), out);
      if (found == nullptr) return;
      out.push_back(found->id);
      text.remove_prefix(at + found->content.size());
    }
  }

  // Invalid bytes are their own tokens and end the text on both sides of them.
  void encode_part(std::string_view text, std::vector<std::int32_t>& out) const {
    std::size_t valid = 0;
    for (std::size_t at = 0; at < text.size();) {
      at += ascii_bytes(text.substr(at));
      if (at == text.size()) break;
      const utf8_step step = next_char(text.substr(at, 4));
      if (step.status != utf8_status::valid) {
        encode_raw(text.substr(valid, at - valid), out);
        for (std::size_t i = 0; i < step.size; ++i) model_.encode_piece(text.substr(at + i, 1), out);
        valid = at + step.size;
      }
      at += step.size;
    }
    encode_raw(text.substr(valid), out);
  }

  void encode_raw(std::string_view text, std::vector<std::int32_t>& out) const {
    nfc_ == nullptr || nfc_->is_plain(text) ? encode_valid(text, out)
                                            : encode_valid(nfc_->normalized(text), out);
  }

  void encode_valid(std::string_view text, std::vector<std::int32_t>& out) const {
    std::array<token_table::prepared, k_pieces_ahead> ahead;
    while (!text.empty()) {
      std::size_t count = 0;
      for (; count < ahead.size() && !text.empty(); ++count) {
        const std::size_t bytes = pretokenizer_.first_piece_bytes(text);
        ahead[count] = model_.prepare(text.substr(0, bytes));
        text.remove_prefix(bytes);
      }
      for (std::size_t i = 0; i < count; ++i) model_.encode_piece(ahead[i], out);
    }
  }

  bpe_model model_;
  pretokenizer pretokenizer_;
  std::vector<added_token> added_;  // by id
  content_index all_;
  content_index plain_;
  bool published_cuts_;
  std::unique_ptr<const nfc_normalizer> nfc_;  // or null
  std::int32_t vocab_size_ = 0;
  std::uint64_t fingerprint_;
};

}  // namespace

std::shared_ptr<const tokenizer> make_bpe_tokenizer(bpe_parts parts) {
  return std::make_shared<const bpe_tokenizer>(std::move(parts));
}

}  // namespace weir::engine::text
