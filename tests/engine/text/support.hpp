// Tokenizers for the text tests: the bundled model's, and ones made of a few tokens.
#pragma once

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/tokenizer.hpp"
#include "engine/text/tokenizer_files.hpp"

namespace weir::engine::text {

inline std::shared_ptr<const tokenizer> weir_tiny() {
  static const auto tok = tokenizer::load(WEIR_SOURCE_DIR "/configs/models/weir-tiny");
  REQUIRE(tok);
  return *tok;
}

inline std::string base64(std::string_view bytes) {
  constexpr char k_alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t bits = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      bits = bits << 8 | (i + j < bytes.size() ? static_cast<std::uint8_t>(bytes[i + j]) : 0U);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      out.push_back(i + j <= bytes.size() ? k_alphabet[bits >> (18 - 6 * j) & 63] : '=');
    }
  }
  return out;
}

// A rank file of the 256 single bytes, whose ranks are their values, and `more`.
inline std::string rank_file(const std::vector<std::string>& more = {}) {
  std::string file;
  int rank = 0;
  for (; rank < 256; ++rank)
    file += base64(std::string(1, static_cast<char>(rank))) + " " + std::to_string(rank) + "\n";
  for (const auto& token : more) file += base64(token) + " " + std::to_string(rank++) + "\n";
  return file;
}

inline std::vector<std::int32_t> encoded(const tokenizer& tok, std::string_view text) {
  std::vector<std::int32_t> ids;
  tok.encode(text, ids);
  return ids;
}

inline std::vector<std::int32_t> encoded_with_specials(const tokenizer& tok, std::string_view text) {
  std::vector<std::int32_t> ids;
  tok.encode_with_specials(text, ids);
  return ids;
}

inline std::string joined_bytes(const tokenizer& tok, const std::vector<std::int32_t>& ids) {
  std::string bytes;
  for (const auto id : ids) bytes += tok.token_bytes(id);
  return bytes;
}

}  // namespace weir::engine::text
