// A prompt's identity: the chain of block keys by which replicas' caches are known.
//
// With a tokenizer the keys are those of the ids of the whole prompt, whatever a prompt_memory holds; text
// seen before is hashed instead of tokenized. Without one the canonical text is keyed in chunks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/chat_format.hpp"
#include "gateway/prompt/prompt_memory.hpp"
#include "prefix_index/block_key.hpp"

namespace weir::gateway {

// How a request got its keys, for the metric.
enum class keyed_how : std::uint8_t {
  tokens,  // exact
  text,    // chunks of canonical text: no tokenizer, or no chat format for the model
  none,    // nothing to key
};

struct prompt_keys {
  keyed_how how = keyed_how::none;
  std::vector<prefix_index::block_key> keys;  // one for each whole unit
  std::uint64_t tokens = 0;                   // of the whole prompt; estimated where keyed by text
  std::size_t unit_tokens = 0;                // tokens that a key stands for
  std::size_t tokenized_bytes = 0;            // text that was new
  std::size_t remembered_bytes = 0;           // text that was not
  bool cut_short = false;                     // at k_uncut_bytes_max; tokens is then an estimate
};

// A chunk ends at the first safe cut or end of a text at least this far on. Shorter ones cost more memory,
// longer ones tokenize more of a known prompt's last chunk, which is never remembered.
inline constexpr std::size_t k_memory_chunk_bytes = 4096;
// Near the beginning they are shorter, a quarter of the text so far: else short prompts would never be
// remembered.
inline constexpr std::size_t k_memory_chunk_bytes_min = 512;

// Text without any safe cut for longer than this cannot be tokenized in steps, and is no prose or code. The
// keys end before it; what follows only has its tokens estimated. It keeps a step below some 50 ms.
inline constexpr std::size_t k_uncut_bytes_max = 256 << 10;

// Hashing and recalling is about this much cheaper than tokenizing, and counts so much less in a step.
inline constexpr std::size_t k_recall_discount = 64;

inline constexpr std::size_t k_text_chunk_bytes = 1024;
inline constexpr std::size_t k_bytes_per_token_estimate = 4;

// Keys one prompt in steps, so that an I/O thread can serve others in between. One thread.
class prompt_keyer final {
 public:
  // `memory` may be null. REQUIRES: memory, tok and what `segments` views outlive this object;
  // unit_tokens > 0. `root` must differ between models and sharing scopes (prefix_index::root_key).
  prompt_keyer(prompt_memory* memory, const engine::text::tokenizer& tok,
               std::span<const engine::text::prompt_segment> segments, const prefix_index::block_key& root,
               std::size_t unit_tokens = prefix_index::k_unit_tokens_default);

  // Goes on by about `bytes_max` bytes of new text, by at most k_uncut_bytes_max more.
  // True when the prompt is done.
  bool step(std::size_t bytes_max);

  // REQUIRES: step() returned true. Once.
  prompt_keys take();

 private:
  // A part of one segment.
  struct part {
    std::int32_t special;
    bool begins_text;
    std::string_view text;
  };

  bool gather();  // the next chunk into parts_ and chunk_; false: it is the prompt's last, unfinished one
  void add(const part& p);
  void tokenize();
  void cut_short();

  prompt_memory* memory_;
  const engine::text::tokenizer* tok_;
  std::span<const engine::text::prompt_segment> rest_;
  std::size_t unit_tokens_;
  std::size_t text_at_ = 0;        // bytes of rest_[0] already taken
  prefix_index::block_key chunk_;  // hash of everything up to the end of the gathered chunk
  prefix_index::block_key last_;   // the newest block key, or the root
  std::vector<part> parts_;
  std::size_t chunk_bytes_ = 0;
  std::size_t gathered_bytes_ = 0;  // in chunks before it
  keying_state state_;
  prompt_keys out_;
};

// How many of the keys stand for units that a replica may reuse: a prompt's last token always runs.
inline std::size_t reusable_units(const prompt_keys& keys) noexcept {
  if (keys.unit_tokens == 0 || keys.tokens == 0) return 0;
  return std::min(keys.keys.size(), static_cast<std::size_t>((keys.tokens - 1) / keys.unit_tokens));
}

// All at once.
prompt_keys key_prompt(prompt_memory* memory, const engine::text::tokenizer& tok,
                       std::span<const engine::text::prompt_segment> segments,
                       const prefix_index::block_key& root,
                       std::size_t unit_tokens = prefix_index::k_unit_tokens_default);

// Keys of whole chunks of k_text_chunk_bytes.
prompt_keys key_text(const prefix_index::block_key& root, std::string_view canonical_text);

// A chat as one text that begins alike for chats that begin alike: what key_text takes.
std::string canonical_text(const engine::text::chat_prompt& prompt);

}  // namespace weir::gateway
