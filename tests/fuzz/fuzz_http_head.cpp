// The head parser on arbitrary bytes: no fault, the same verdict whole and in two parts, and views within the
// buffer.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "gateway/http/head_parser.hpp"
#include "gateway/http/limits.hpp"

using namespace weir::gateway::http;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::size_t cut = static_cast<std::size_t>(data[0] * 256 + data[1]) % (size - 1);
  const std::vector<char> bytes(data + 2, data + size);
  const std::string_view all(bytes.data(), bytes.size());
  head_parser whole;
  const parse_state state = whole.parse(all);
  head_parser split;
  parse_state again = split.parse(all.substr(0, cut));
  if (again == parse_state::need_more) again = split.parse(all);
  if (again != state) std::abort();
  if (state == parse_state::reject && whole.rejected() != split.rejected()) std::abort();
  if (state != parse_state::ok) return 0;
  if (whole.head_bytes() != split.head_bytes() || whole.head_bytes() > k_head_bytes_max) std::abort();
  if (whole.field_count() > k_head_fields_max || whole.path(all).empty()) std::abort();
  for (std::size_t i = 0; i < whole.field_count(); ++i) {
    if (!is_token(whole.field(i, all).name) || !is_field_value(whole.field(i, all).value)) std::abort();
  }
  if (whole.framing() == body_framing::none && whole.content_length() != 0) std::abort();
  return 0;
}
