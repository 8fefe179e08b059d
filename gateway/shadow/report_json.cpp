#include <fmt/format.h>

#include "engine/text/quote.hpp"
#include "gateway/shadow/report.hpp"
#include "policy/comparison/verdict.hpp"

namespace weir::gateway::shadow {

namespace {

using namespace policy::comparison;  // NOLINT: its types only

std::string in_quotes(std::string_view text) {
  std::string out;
  engine::text::append_quoted(out, text);
  return out;
}

std::string or_null(const std::optional<double>& value) {
  return value ? fmt::format("{}", *value) : "null";
}

std::string json(const interval& in) {
  return fmt::format("[{},{}]", or_null(in.low), or_null(in.high));
}

std::string json(const measure& m) {
  if (m.n == 0) return R"({"n":0})";
  return fmt::format(R"({{"n":{},"median":{},"median_95":{},"p95":{},"p95_95":{},"p99":{},"p99_95":{}}})",
                     m.n, m.median, json(m.median_in), m.p95, json(m.p95_in), m.p99, json(m.p99_in));
}

std::string json(const quantity& q) {
  const auto& d = q.between;
  const std::string between =
      d.n == 0
          ? R"({"n":0})"
          : fmt::format(R"({{"n":{},"median":{},"median_95":{},"median_99":{},"more":{},"less":{},"p":{}}})",
                        d.n, d.median, json(d.p95), json(d.p99), d.more, d.less, d.p_value);
  return fmt::format(R"({{"primary":{},"shadow":{},"shadow_minus_primary":{}}})", json(q.primary),
                     json(q.shadow), between);
}

std::string json(const share& s) {
  return fmt::format(R"({{"hits":{},"n":{},"share_95":{}}})", s.hits, s.n, json(s.in));
}

std::string json(const bill& b) {
  return fmt::format(R"({{"total_nano_usd":{},"tokens":{},"usd_per_mtok":{},"unpriced":{}}})", b.total,
                     b.tokens, b.usd_per_mtok(), b.unpriced);
}

std::string json(const price_report& p) {
  std::string saves = "null";
  if (p.shadow_saves) {
    saves = fmt::format(R"({{"share":{},"share_95":{},"share_99":{}}})", p.shadow_saves->share,
                        json(p.shadow_saves->p95), json(p.shadow_saves->p99));
  }
  return fmt::format(R"({{"n":{},"primary":{},"shadow":{},"shadow_saves":{}}})", p.n, json(p.primary),
                     json(p.shadow), saves);
}

std::string ends(const std::array<std::int64_t, k_side_ends>& counts) {
  std::string out;
  for (int i = 0; i < k_side_ends; ++i) {
    out += fmt::format(R"({}"{}":{})", out.empty() ? "" : ",",
                       policy::comparison::to_text(static_cast<side_end>(i)),
                       counts[static_cast<std::size_t>(i)]);
  }
  return '{' + out + '}';
}

std::string json(const reliability_report& r) {
  return fmt::format(
      R"({{"primary":{},"shadow":{},"primary_fails":{},"shadow_fails":{},"only_primary_failed":{},)"
      R"("only_shadow_failed":{},"p":{}}})",
      ends(r.primary), ends(r.shadow), json(r.primary_fails), json(r.shadow_fails), r.only_primary_failed,
      r.only_shadow_failed, r.p_value);
}

std::string json(const finding& f) {
  constexpr std::string_view k_who[] = {"none", "primary", "shadow"};
  constexpr std::string_view k_how[] = {"unknown", "likely", "sure"};
  return fmt::format(R"({{"question":{},"winner":"{}","sureness":"{}","words":{}}})", in_quotes(f.question),
                     k_who[static_cast<std::size_t>(f.who)], k_how[static_cast<std::size_t>(f.how)],
                     in_quotes(f.words));
}

std::string json(const report& f) {
  std::string verdict_json;
  for (const auto& one : verdict(f)) verdict_json += (verdict_json.empty() ? "" : ",") + json(one);
  return fmt::format(
      R"({{"model":{},"primary":{},"shadow":{},"pairs":{},"from":{},"to":{},"verdict":[{}],"ttft_ms":{},)"
      R"("itl_ms":{},"end_to_end_ms":{},"output_tokens":{},"cached_tokens":{},"price":{},"reliability":{},)"
      R"("agreement":{{"exact":{},"json":{},"tools":{},"overlap":{},"cut":{}}}}})",
      in_quotes(f.model), in_quotes(f.primary), in_quotes(f.shadow), f.pairs, f.first_s, f.last_s,
      verdict_json, json(f.ttft_ms), json(f.itl_ms), json(f.end_to_end_ms), json(f.output_tokens),
      json(f.cached_tokens), json(f.price), json(f.reliability), json(f.alike.exact), json(f.alike.json),
      json(f.alike.tools), json(f.alike.overlap), f.alike.cut);
}

}  // namespace

std::string to_json(std::span<const compared> all) {
  std::string out;
  for (const auto& one : all) out += (out.empty() ? "" : ",") + json(one.figures);
  return R"({"comparisons":[)" + out + "]}";
}

}  // namespace weir::gateway::shadow
