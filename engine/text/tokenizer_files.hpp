// The two tokenizer files of a checkpoint, from bytes to checked values: tiktoken.model (one "BASE64 RANK"
// per line) and tokenizer_config.json (`added_tokens_decoder`). The bytes are an operator's download and are
// treated as hostile. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/result.hpp"
#include "engine/text/added_tokens.hpp"
#include "engine/text/pretokenizer.hpp"
#include "engine/text/tokenizer.hpp"

namespace weir::engine::text {

inline constexpr std::size_t k_rank_file_bytes_max = 64ULL << 20;   // Kimi's has 2.8 MB
inline constexpr std::size_t k_config_file_bytes_max = 4ULL << 20;  // Kimi's has about 40 KB
inline constexpr std::int32_t k_reserved_specials = 256;            // ids after the ranks, named or not
inline constexpr std::int32_t k_specials_max = 4096;                // ids after the ranks at all
inline constexpr std::size_t k_special_bytes_max = 256;

// A rank file that is published alone, with pattern and special tokens known by its name, NAME.tiktoken.
struct named_encoding {
  std::string_view name;
  split_pattern pattern;
  std::vector<added_token> specials;
};
std::span<const named_encoding> named_encodings();

// The bytes of every rank, in order. errc::bad_model names the line of the file called `name`.
result<std::vector<std::string>> parse_rank_file(std::string_view file,
                                                 std::string_view name = "tiktoken.model");

// The contents of the special tokens with ids base, base + 1, ...: at least the reserved ones, of which those
// that the file does not list are <|reserved_token_ID|>, as in the published tokenizer. errc::bad_model names
// the entry.
result<std::vector<std::string>> parse_tokenizer_config(std::string_view file, std::int32_t base);

// A tokenizer of one file's bytes. errc::bad_model names file and place.
result<std::shared_ptr<const tokenizer>> make_named_tokenizer(std::string_view rank_file,
                                                              const named_encoding& encoding);

// Kimi's tokenizer of two files' bytes. errc::bad_model names file and place.
result<std::shared_ptr<const tokenizer>> make_tokenizer(std::string_view rank_file,
                                                        std::string_view config_file);

}  // namespace weir::engine::text
