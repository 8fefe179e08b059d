#include "gateway/shadow/pair_json.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "engine/text/quote.hpp"

namespace weir::gateway::shadow {

namespace {

using policy::comparison::agreement;
using policy::comparison::k_unknown;
using policy::comparison::likeness;
using policy::comparison::pair;
using policy::comparison::side;
using policy::comparison::side_end;
using simdjson::dom::element;

constexpr std::string_view k_likeness[] = {"absent", "equal", "different"};
constexpr double k_millionths = 1e6;

std::string in_quotes(std::string_view text) {
  std::string out;
  engine::text::append_quoted(out, text);
  return out;
}

std::string or_null(std::int64_t number) {
  return number == k_unknown ? "null" : std::to_string(number);
}

std::string to_json(const side& s) {
  return fmt::format(
      R"({{"target":{},"end":"{}","status":{},"prompt_tokens":{},"cached_tokens":{},"output_tokens":{},)"
      R"("price_nano_usd":{},"unpriced":{},"ttft_ns":{},"itl_mean_ns":{},"itl_median_ns":{},)"
      R"("end_to_end_ns":{},)"
      R"("excerpt":{}}})",
      in_quotes(s.target), to_text(s.end), s.status, or_null(s.prompt_tokens), or_null(s.cached_tokens),
      or_null(s.output_tokens), s.price, s.unpriced, or_null(s.ttft_ns), or_null(s.itl_mean_ns),
      or_null(s.itl_median_ns), or_null(s.end_to_end_ns), in_quotes(s.excerpt));
}

std::string to_json(const agreement& a) {
  return fmt::format(R"({{"compared":{},"cut":{},"exact":{},"overlap":{},"json":"{}","tools":"{}"}})",
                     a.compared, a.cut, a.exact, a.overlap, k_likeness[static_cast<std::size_t>(a.json)],
                     k_likeness[static_cast<std::size_t>(a.tools)]);
}

// Reads members of an object; what is missing or of another kind makes it bad.
class reader {
 public:
  // Nothing: it is no object.
  explicit reader(std::optional<element> of) {
    simdjson::dom::object object;
    if (of && !of->get(object)) of_ = object;
    note(of_.has_value());
  }

  std::string text(std::string_view key) { return std::string(read<std::string_view>(key)); }
  std::int64_t number(std::string_view key) {
    const auto out = read<std::int64_t>(key);
    note(out >= 0);
    return out;
  }
  std::int64_t maybe(std::string_view key) {
    const auto value = find(key);
    return value && value->is_null() ? k_unknown : number(key);
  }
  bool flag(std::string_view key) { return read<bool>(key); }
  double share(std::string_view key) {
    const auto out = read<double>(key);
    note(out >= 0 && out <= 1);
    return std::round(out * k_millionths) / k_millionths;
  }
  likeness alike(std::string_view key) {
    const auto at = std::find(std::begin(k_likeness), std::end(k_likeness), text(key));
    note(at != std::end(k_likeness));
    return at == std::end(k_likeness) ? likeness::absent : static_cast<likeness>(at - std::begin(k_likeness));
  }
  side_end end(std::string_view key) {
    const auto said = text(key);
    for (int i = 0; i < policy::comparison::k_side_ends; ++i) {
      if (to_text(static_cast<side_end>(i)) == said) return static_cast<side_end>(i);
    }
    note(false);
    return side_end::ok;
  }
  reader inside(std::string_view key) { return reader(find(key)); }
  void note(bool good) { good_ = good_ && good; }
  bool good() const { return good_; }

 private:
  std::optional<element> find(std::string_view key) const {
    element value;
    if (!of_ || of_->at_key(key).get(value)) return std::nullopt;
    return value;
  }
  template <class T>
  T read(std::string_view key) {
    T out{};
    const auto value = find(key);
    note(value && !value->get(out));
    return out;
  }

  std::optional<simdjson::dom::object> of_;
  bool good_ = true;
};

side read_side(reader& in, std::string_view key) {
  auto of = in.inside(key);
  side s;
  s.target = of.text("target");
  s.end = of.end("end");
  s.status = static_cast<std::int32_t>(std::min<std::int64_t>(of.number("status"), 999));
  s.prompt_tokens = of.maybe("prompt_tokens");
  s.cached_tokens = of.maybe("cached_tokens");
  s.output_tokens = of.maybe("output_tokens");
  s.price = of.number("price_nano_usd");
  s.unpriced = of.flag("unpriced");
  s.ttft_ns = of.maybe("ttft_ns");
  s.itl_mean_ns = of.maybe("itl_mean_ns");
  s.itl_median_ns = of.maybe("itl_median_ns");
  s.end_to_end_ns = of.maybe("end_to_end_ns");
  s.excerpt = of.text("excerpt");
  in.note(of.good());
  return s;
}

std::optional<pair> read_pair(element from) {
  reader in{std::optional(from)};
  pair out;
  out.at_s = in.number("at");
  out.model = in.text("model");
  out.tenant = in.text("tenant");
  out.key = in.text("key");
  out.streamed = in.flag("streamed");
  out.primary = read_side(in, "primary");
  out.shadow = read_side(in, "shadow");
  auto alike = in.inside("agreement");
  out.alike.compared = alike.flag("compared");
  out.alike.cut = alike.flag("cut");
  out.alike.exact = alike.flag("exact");
  out.alike.overlap = alike.share("overlap");
  out.alike.json = alike.alike("json");
  out.alike.tools = alike.alike("tools");
  if (!in.good() || !alike.good()) return std::nullopt;
  return out;
}

}  // namespace

std::string to_json(const pair& p) {
  return fmt::format(
      R"({{"at":{},"model":{},"tenant":{},"key":{},"streamed":{},"primary":{},"shadow":{},"agreement":{}}})",
      p.at_s, in_quotes(p.model), in_quotes(p.tenant), in_quotes(p.key), p.streamed, to_json(p.primary),
      to_json(p.shadow), to_json(p.alike));
}

std::optional<pair_page> read_page_of_pairs(std::string_view json) {
  simdjson::dom::parser parser;
  element root, next;
  simdjson::dom::array data;
  if (parser.parse(json.data(), json.size()).get(root) || root["data"].get(data)) return std::nullopt;
  pair_page out;
  for (const auto one : data) {
    auto read = read_pair(one);
    if (!read) return std::nullopt;
    out.pairs.push_back(std::move(*read));
  }
  if (root["next"].get(next)) return std::nullopt;
  std::string_view cursor;
  if (!next.is_null() && next.get(cursor)) return std::nullopt;
  out.next = cursor;
  return out;
}

}  // namespace weir::gateway::shadow
