// A Hugging Face tokenizer.json with a byte-level BPE model, from hostile bytes to a tokenizer. Pure; any
// thread.
//
// What decides ids and is not supported is an error that names it, never left out in silence: other models
// than byte-level BPE, unknown patterns, normalizers, prefixes and suffixes of words, added tokens that
// strip white space or match whole words. The post-processor, which puts tokens around a text, is not run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "engine/result.hpp"
#include "engine/text/tokenizer.hpp"

namespace weir::engine::text {

inline constexpr std::size_t k_tokenizer_json_bytes_max = 64ULL << 20;  // published ones have up to 20 MB
inline constexpr std::size_t k_merges_max = 1 << 21;                    // Llama 3 has 280,147

// errc::bad_model names what is malformed, errc::unsupported what is not supported.
result<std::shared_ptr<const tokenizer>> make_hugging_face_tokenizer(std::string_view tokenizer_json);

}  // namespace weir::engine::text
