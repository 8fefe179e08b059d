// tokenizer.json as hostile bytes. First byte odd: the rest goes on behind the vocabulary of a sound file, so
// that the fuzzer need not find 256 bytes by itself; even: the rest is the file. What loads must round-trip
// text and encode it in slices as it does at once.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "engine/text/hugging_face_file.hpp"

namespace {

using namespace weir::engine::text;

bool is_printable(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

std::string bytes_vocabulary() {
  std::string out;
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const int letter = is_printable(byte) ? byte : next++;
    std::string text(1, static_cast<char>(letter));
    if (letter >= 0x80) {
      text = {static_cast<char>(0xC0 | letter >> 6), static_cast<char>(0x80 | (letter & 0x3F))};
    }
    if (text == "\"" || text == "\\") text.insert(0, "\\");
    out += "\"" + text + "\":" + std::to_string(byte) + ",";
  }
  return out;
}

void check(const tokenizer& tok, std::string_view text) {
  std::vector<std::int32_t> whole, sliced;
  tok.encode(text, whole);
  text_state state;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t bytes = tok.safe_cut(rest, 5);
    tok.encode_slice(rest.substr(0, bytes), state, sliced);
    rest.remove_prefix(bytes);
  }
  std::string joined;
  for (const auto id : whole) joined += tok.token_bytes(id);
  if (whole != sliced || joined != text) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string head = R"({"pre_tokenizer":{"type":"ByteLevel"},"model":{"vocab":{)" +
                                  bytes_vocabulary() + R"("ab":256,"ba":257,"abab":258)";
  if (size < 1) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool inside = (data[0] & 1) != 0;
  const auto tok = make_hugging_face_tokenizer(inside ? head + std::string(rest) : std::string(rest));
  // Composed text: what is normalized comes back as it was.
  if (tok) check(**tok, "abab baba <t> é中 x\xFF ab1234's  \n\n ababab/ab, 한글");
  return 0;
}
