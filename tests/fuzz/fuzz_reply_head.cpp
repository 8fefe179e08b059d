// An upstream's head and body on arbitrary bytes: no fault, and one verdict and one body whole, in two parts
// and byte by byte.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/http/limits.hpp"
#include "gateway/http/reply_body.hpp"
#include "gateway/http/reply_parser.hpp"

using namespace weir::gateway::http;

namespace {

constexpr std::size_t k_bytewise_bytes_max = 2048;

struct outcome {
  parse_state head = parse_state::need_more;
  std::string reason;
  std::string fields;
  int status = 0;
  bool keep_alive = false;
  chunk_step::kind last = chunk_step::kind::need_more;
  std::string body;
  std::size_t taken = 0;
  bool ends_at_eof = false;
  friend bool operator==(const outcome&, const outcome&) = default;
};

void read_head(const reply_parser& parser, std::string_view all, outcome& out) {
  out.status = parser.status();
  out.keep_alive = parser.keep_alive();
  out.taken = parser.head_bytes();
  if (out.taken > k_reply_head_bytes_max || parser.field_count() > k_reply_fields_max) std::abort();
  if (out.status < 100 || out.status > 599 || out.status == 101) std::abort();
  if (out.keep_alive && parser.framing() == reply_framing::to_close) std::abort();
  for (std::size_t i = 0; i < parser.field_count(); ++i) {
    const field_view field = parser.field(i, all);
    if (!is_token(field.name) || !is_field_value(field.value)) std::abort();
    out.fields.append(field.name).append("=").append(field.value).append(";");
  }
}

outcome run(std::string_view bytes, const std::vector<std::size_t>& cuts) {
  outcome out;
  reply_parser parser;
  std::size_t shown = 0;
  for (; shown < cuts.size() && out.head == parse_state::need_more; ++shown) {
    out.head = parser.parse(bytes.substr(0, cuts[shown]));
  }
  if (out.head == parse_state::reject) out.reason = parser.reason();
  if (out.head != parse_state::ok) return out;
  read_head(parser, bytes.substr(0, cuts[shown - 1]), out);
  reply_body body(parser.framing(), parser.content_length());
  for (--shown; shown < cuts.size(); ++shown) {
    do {
      const chunk_step step = body.decode(bytes.substr(out.taken, cuts[shown] - out.taken));
      out.last = step.what;
      out.taken += step.consumed;
      out.body += step.data;
    } while (out.last == chunk_step::kind::data);
    if (out.last != chunk_step::kind::need_more) break;
  }
  out.ends_at_eof = body.ends_at_eof();
  if (out.last == chunk_step::kind::done && !out.ends_at_eof) std::abort();
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::size_t cut = static_cast<std::size_t>(data[0] * 256 + data[1]) % (size - 1);
  const std::vector<char> bytes(data + 2, data + size);
  const std::string_view all(bytes.data(), bytes.size());
  const outcome whole = run(all, {all.size()});
  if (run(all, {cut, all.size()}) != whole) std::abort();
  if (all.size() > k_bytewise_bytes_max) return 0;
  std::vector<std::size_t> each(all.size() + 1);
  for (std::size_t i = 0; i < each.size(); ++i) each[i] = i;
  if (run(all, each) != whole) std::abort();
  return 0;
}
