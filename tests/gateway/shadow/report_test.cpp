#include "gateway/shadow/report.hpp"

#include <simdjson.h>
#include <catch2/catch.hpp>

#include "gateway/shadow/pair_json.hpp"
#include "gateway/shadow/report_plots.hpp"

namespace weir::gateway::shadow {

namespace {

using policy::comparison::likeness;
using policy::comparison::pair;
using policy::comparison::side_end;

constexpr std::int64_t k_noon_s = 1'796'040'000;
constexpr const char* k_attack = "</pre><script>alert(1)</script>\"'&\x01\x1b[31m";

pair sample(int i = 1) {
  pair out{.at_s = k_noon_s + i, .model = "kimi<b>", .tenant = "acme", .key = "ci", .streamed = true};
  out.primary = {.target = "own",
                 .status = 200,
                 .prompt_tokens = 1000,
                 .cached_tokens = 800,
                 .output_tokens = 500,
                 .price = 8'340'000,
                 .unpriced = false,
                 .ttft_ns = 100'000'000 + i * 1'000'000,
                 .itl_mean_ns = 20'000'000,
                 .itl_median_ns = 19'000'000,
                 .end_to_end_ns = 9'000'000'000,
                 .excerpt = k_attack};
  out.shadow = out.primary;
  out.shadow.target = "hosted";
  out.shadow.ttft_ns = 50'000'000;
  out.shadow.excerpt = "plain";
  out.alike = {.compared = true, .overlap = 0.666667, .json = likeness::different, .tools = likeness::equal};
  return out;
}

pair failed_sample() {
  auto out = sample();
  out.shadow = {.target = "hosted", .end = side_end::timed_out};
  out.alike = {};
  return out;
}

std::vector<pair> many() {
  std::vector<pair> out;
  for (int i = 1; i <= 100; ++i) out.push_back(sample(i));
  return out;
}

}  // namespace

TEST_CASE("pairs go through the admin API unchanged") {
  const std::vector<pair> sent{sample(), failed_sample(), pair{.model = "m", .primary = {.target = "a"}}};
  std::string data;
  for (const auto& p : sent) data += (data.empty() ? "" : ",") + to_json(p);
  const auto last = read_page_of_pairs(R"({"data":[)" + data + R"(],"next":null})");
  REQUIRE(last);
  CHECK(last->pairs == sent);
  CHECK(last->next.empty());
  CHECK(read_page_of_pairs(R"({"data":[],"next":"3132"})")->next == "3132");
}

TEST_CASE("what is no page of pairs is not taken for one") {
  const auto good = to_json(sample());
  const auto page = [](const std::string& data) { return R"({"data":[)" + data + R"(],"next":null})"; };
  REQUIRE(read_page_of_pairs(page(good)));
  const auto with = [&](std::string_view what, std::string_view by) {
    auto text = good;
    const auto at = text.find(what);
    REQUIRE(at != text.npos);
    return page(text.replace(at, what.size(), by));
  };
  const std::string bad[] = {
      "",
      "[]",
      R"({"data":[]})",
      R"({"data":[],"next":3})",
      R"({"data":3,"next":null})",
      page("3"),
      page("{}"),
      with(R"("end":"ok")", R"("end":"fine")"),
      with(R"("status":200)", R"("status":"200")"),
      with(R"("price_nano_usd":8340000)", R"("price_nano_usd":-1)"),
      with(R"("price_nano_usd":8340000)", R"("price_nano_usd":null)"),
      with(R"("overlap":0.666667)", R"("overlap":1.5)"),
      with(R"("json":"different")", R"("json":"other")"),
      with(R"("streamed":true)", R"("streamed":1)"),
      with(R"("at":)", R"("when":)"),
  };
  for (const auto& text : bad) {
    INFO(text);
    CHECK_FALSE(read_page_of_pairs(text));
  }
}

TEST_CASE("the page needs nothing else and lets no text of an answer through as markup") {
  auto pairs = many();
  pairs.push_back(failed_sample());
  const auto page = to_html(compare_all(pairs));
  for (const auto* outside :
       {"<script", "http://", "https://", "src=", "<link", "@import", "url(", "<b>kimi", "kimi<b>"}) {
    INFO(outside);
    CHECK(page.find(outside) == page.npos);
  }
  CHECK(page.find('\x01') == page.npos);
  CHECK(page.find('\x1b') == page.npos);
  CHECK(page.find("&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;") != page.npos);
  CHECK(page.find("Content-Security-Policy") != page.npos);
  for (const auto* part :
       {"Cheaper", "Faster to the first token", "More reliable", "Same answers", "<polyline class=\"a\"",
        "<polyline class=\"b\"", "<rect class=\"b\"", "Where they differ most", "plain"}) {
    INFO(part);
    CHECK(page.find(part) != page.npos);
  }
  CHECK(to_html({}).find("There are no pairs") != std::string::npos);
}

TEST_CASE("the text says who wins before any figure") {
  const auto all = compare_all(many());
  REQUIRE(all.size() == 1);
  const auto text = to_text(all.front());
  CHECK(
      text.starts_with("kimi<b>: own (answered the clients) and hosted (got copies)\n"
                       "100 pairs, 2026-11-30 12:00 to 2026-11-30 12:01 UTC\n"));
  const auto verdict = text.find("Faster to the first token\n  hosted, by 100 ms");
  CHECK(verdict != text.npos);
  CHECK(verdict < text.find("median   "));
}

TEST_CASE("the figures as JSON") {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  auto pairs = many();
  pairs.push_back(failed_sample());
  REQUIRE_FALSE(parser.parse(to_json(compare_all(pairs))).get(root));
  const auto one = root["comparisons"].at(0);
  CHECK(one["pairs"].get_uint64().value() == 101U);
  CHECK(std::string_view(one["verdict"].at(1)["winner"]) == "shadow");
  CHECK(one["ttft_ms"]["primary"]["n"].get_uint64().value() == 101U);
  CHECK(one["ttft_ms"]["shadow_minus_primary"]["n"].get_uint64().value() == 100U);
  CHECK(one["reliability"]["shadow"]["timed_out"].get_uint64().value() == 1U);
  REQUIRE_FALSE(parser.parse(to_json(std::span<const compared>())).get(root));
}

TEST_CASE("plots of nothing, of one value and of zeros") {
  CHECK(cumulative_plot("t", "ms", {"a", {}}, {"b", {}}).empty());
  for (const auto& values : {std::vector<double>{0}, std::vector<double>{0, 0}, std::vector<double>{5}}) {
    const auto plot = cumulative_plot("t<", "ms", {"a<", values}, {"b", {}});
    CHECK(plot.find("nan") == plot.npos);
    CHECK(plot.find("inf") == plot.npos);
    CHECK(plot.find("t&lt;") != plot.npos);
    CHECK(plot.find("a&lt;") != plot.npos);
  }
  const auto bars = bar_plot("t", {{.name = "a", .label = "0"}});
  CHECK(bars.find("nan") == bars.npos);
}

}  // namespace weir::gateway::shadow
