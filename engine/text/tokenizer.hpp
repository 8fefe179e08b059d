// Byte-level BPE tokenizers: Kimi's (tiktoken ranks, its pattern and cuts, the special tokens of
// tokenizer_config.json), OpenAI's named encodings, and Hugging Face's tokenizer.json. Exact: the same ids as
// the published implementation for any UTF-8 text, O(n log n) in the text's length also for one endless word.
// Immutable after load(); any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/result.hpp"

namespace weir::engine::text {

// Where a text stands between two of its slices: what the published cuts count. A text begins with {}.
struct text_state {
  std::uint32_t chunk_chars = 0;
  std::uint32_t run_chars = 0;
  bool run_is_space = false;

  friend bool operator==(const text_state&, const text_state&) = default;
};

class tokenizer {
 public:
  virtual ~tokenizer() = default;

  // Reads what is there of: NAME.tiktoken of a named encoding; tiktoken.model with tokenizer_config.json;
  // tokenizer.json. A malformed file is errc::bad_model naming file and place, one that needs what is not
  // built in errc::unsupported naming that.
  static result<std::shared_ptr<const tokenizer>> load(const std::filesystem::path& dir);

  // Appends the ids of `text` to `out`. Special tokens inside the text are ordinary text: nothing a user
  // writes becomes one (but a tokenizer.json may name tokens that are matched and not special). Invalid UTF-8
  // is encoded byte by byte and round-trips.
  void encode(std::string_view text, std::vector<std::int32_t>& out) const;

  // The same in slices: the ids of all slices of a text are those of the text when each slice but the last
  // ends at a safe cut and `state` is passed on from one to the next.
  virtual void encode_slice(std::string_view slice, text_state& state,
                            std::vector<std::int32_t>& out) const = 0;

  // The first place at or after byte `from` where `text` may be cut, text.size() where there is none. The
  // ids left of a safe cut do not depend on what follows it, nor those right of it on what stands before.
  // Decided by the characters around the cut alone, so texts that begin alike are cut alike.
  virtual std::size_t safe_cut(std::string_view text, std::size_t from) const = 0;

  // The same, but special tokens in the text become their ids: for trusted text (a completions prompt of the
  // operator's, tests).
  virtual void encode_with_specials(std::string_view text, std::vector<std::int32_t>& out) const = 0;

  virtual std::optional<std::int32_t> special_id(std::string_view content) const = 0;
  virtual bool is_special(std::int32_t id) const noexcept = 0;

  // Bytes of a token; a special token gives its content; an id outside the vocabulary gives nothing.
  virtual std::string_view token_bytes(std::int32_t id) const noexcept = 0;

  virtual std::int32_t vocab_size() const noexcept = 0;

  // Equal for tokenizers loaded from equal files: what remembers ids keys them with it.
  virtual std::uint64_t fingerprint() const noexcept = 0;
};

}  // namespace weir::engine::text
