// The one implementation of tokenizer: a byte-level BPE vocabulary behind a pattern, with added tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/text/added_tokens.hpp"
#include "engine/text/bpe_model.hpp"
#include "engine/text/pretokenizer.hpp"
#include "engine/text/tokenizer.hpp"

namespace weir::engine::text {

struct bpe_parts {
  bpe_model model;
  split_pattern pattern;
  std::vector<added_token> added;      // ids and contents unique, contents not empty
  bool published_cuts = false;         // those of text_splitter.hpp
  bool nfc = false;                    // normalize text to form C first: ids are those of the normalized text
  std::uint64_t fingerprint_seed = 0;  // of whatever decides ids besides the tokens' bytes
};

std::shared_ptr<const tokenizer> make_bpe_tokenizer(bpe_parts parts);

}  // namespace weir::engine::text
