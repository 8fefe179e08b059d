// tiktoken.model and tokenizer_config.json as hostile bytes: first byte 0: a rank file; 1: a configuration;
// otherwise text for the bundled kind of tokenizer, which must round-trip. In modes 0 and 1 a sound prefix
// stands in front when the second byte is odd, so that the fuzzer need not find 256 lines by itself.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "engine/text/tokenizer_files.hpp"

namespace {

using namespace weir::engine::text;

std::string base_ranks() {
  constexpr char k_alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string file;
  for (int b = 0; b < 256; ++b) {
    file += {k_alphabet[b >> 2], k_alphabet[(b & 3) << 4], '=', '=', ' '};
    file += std::to_string(b) + "\n";
  }
  return file;
}

void check_round_trip(const tokenizer& tok, std::string_view text) {
  std::vector<std::int32_t> ids, special_ids;
  tok.encode(text, ids);
  tok.encode_with_specials(text, special_ids);
  std::string plain, special;
  for (const auto id : ids) {
    if (tok.is_special(id)) std::abort();
    plain += tok.token_bytes(id);
  }
  for (const auto id : special_ids) special += tok.token_bytes(id);
  if (plain != text || special != text) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string ranks = base_ranks();
  static const std::string config = R"({"added_tokens_decoder":{"256":{"content":"<|im_end|>"}}})";
  static const auto fixed =
      make_tokenizer(ranks + "YWI= 256\nYmM= 257\n4pg= 258\n", R"({"added_tokens_decoder":{}})");
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  if (data[0] == 0) {
    const auto tok = make_tokenizer((data[1] & 1 ? ranks : std::string()) + std::string(bytes), config);
    if (tok) check_round_trip(**tok, "the same <|im_end|> text\xFF");
  } else if (data[0] == 1) {
    const auto specials = parse_tokenizer_config(bytes, 256);
    if (specials && (specials->size() < k_reserved_specials || specials->size() > k_specials_max))
      std::abort();
  } else {
    check_round_trip(**fixed, bytes);
  }
  return 0;
}
