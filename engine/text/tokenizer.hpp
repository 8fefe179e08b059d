// Byte-level BPE in the tiktoken rank-file format with Kimi's pre-tokenizer pattern and the special tokens of
// tokenizer_config.json. Exact: the same ids as the published Python tokenizer for any UTF-8 text, linear in
// the text's length also for one endless word. Immutable after load(); any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/result.hpp"

namespace weir::engine::text {

class tokenizer {
 public:
  virtual ~tokenizer() = default;

  // Reads DIR/tiktoken.model and DIR/tokenizer_config.json. A malformed file is errc::bad_model naming file
  // and line.
  static result<std::shared_ptr<const tokenizer>> load(const std::filesystem::path& dir);

  // Appends the ids of `text` to `out`. Special tokens inside the text are ordinary text: nothing a user
  // writes becomes one. Invalid UTF-8 is encoded byte by byte and round-trips.
  virtual void encode(std::string_view text, std::vector<std::int32_t>& out) const = 0;

  // The same, but special tokens in the text become their ids: for trusted text (a completions prompt of the
  // operator's, tests).
  virtual void encode_with_specials(std::string_view text, std::vector<std::int32_t>& out) const = 0;

  virtual std::optional<std::int32_t> special_id(std::string_view content) const = 0;
  virtual bool is_special(std::int32_t id) const noexcept = 0;

  // Bytes of a token; a special token gives its content; an id outside the vocabulary gives nothing.
  virtual std::string_view token_bytes(std::int32_t id) const noexcept = 0;

  virtual std::int32_t vocab_size() const noexcept = 0;
};

}  // namespace weir::engine::text
