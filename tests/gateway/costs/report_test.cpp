#include "gateway/costs/report.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "tests/policy/economics/samples.hpp"

namespace weir::gateway::costs {
namespace {

using policy::economics::inputs;
using policy::economics::k3_on_one_node;

report report_of(inputs in) {
  report r{.source = "inputs: f.yaml", .in = std::move(in), .out = {}};
  r.out = policy::economics::compare(r.in);
  return r;
}

// How columns are aligned is not what is tested.
std::string in_single_spaces(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c != ' ' || !out.ends_with(' ')) out += c;
  }
  return out;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != text.npos;
}

TEST_CASE("numbers as people read them") {
  CHECK(grouped(0) == "0");
  CHECK(grouped(999) == "999");
  CHECK(grouped(1'000) == "1,000");
  CHECK(grouped(-1'234'567) == "-1,234,567");
  CHECK(in_cents(29'200'000'000'000) == "$29,200.00");
  CHECK(in_cents(4'999'999) == "$0.00");
  CHECK(in_cents(5'000'000) == "$0.01");
  CHECK(in_millionths(13'888'889) == "$0.013889");
  CHECK(in_millionths(1'999'999'500) == "$2.000000");
  CHECK(in_json(13'888'889) == "0.013888889");
  CHECK(in_json(40'000'000'000) == "40.000000000");
  CHECK(in_percent(0.05) == "5%");
  CHECK(in_count(2500.4) == "2,500");
  CHECK(in_count(0.2917) == "0.292");
}

TEST_CASE("the text has the table, the break-evens, the three terms and the verdict") {
  const auto text = in_single_spaces(to_text(report_of(k3_on_one_node())));
  for (const auto* part :
       {"per month $29,200.00 $49,669.20", "per accepted result $0.013889 $0.020000", "1 replica (as many as",
        "2,500 requests per hour", "5,000 requests per hour", "with 2 replicas",
        "75% of the prompt tokens at this load", "none: the API is dearer even with 95% (given: 90%)",
        "may not leave nothing", "257 sequences at once", "0 kept, 1 needed: TOO FEW", "[ ] to check",
        "* self-hosted, - API",
        "SELF-HOST: an accepted result costs $0.013889 on own GPUs and $0.020000 at the API: a difference of "
        "$12,848.00 a month."}) {
    INFO(part);
    CHECK(has(text, part));
  }
}

TEST_CASE("each answer is a sentence that says why") {
  struct row {
    void (*change)(inputs&);
    const char* side;
    const char* sentence;
  };
  const row rows[] = {
      {[](inputs& in) { in.traffic.requests_per_hour = 0; }, "api", "USE THE API: there is no traffic"},
      {[](inputs& in) { in.traffic.requests_per_hour = 2500; }, "equal",
       "What decides is the operational load"},
      {[](inputs& in) { in.traffic.requests_per_hour = 1000; }, "api",
       "USE THE API: an accepted result costs"},
      {[](inputs& in) { in.memory.gpu_bytes = 192'000'000'000; }, "api", "it takes 10 such GPUs at least"},
      {[](inputs& in) { in.memory.gpu_bytes = 20'000'000'000; }, "api", "leaves no memory on a GPU"},
      {[](inputs& in) { in.traffic.requests_per_hour = 1e12; }, "api",
       "no fleet of up to 1,000,000 replicas"},
      {[](inputs& in) { in.api.hit_rate = std::nullopt; }, "api", "1 input is missing"},
      {[](inputs& in) { in.traffic.local_only_share = 1; }, "self_host", "no request may leave"},
      {[](inputs& in) { in.api.accepted_share = 0; }, "self_host",
       "nothing, for none is accepted, at the API"},
      {[](inputs& in) { in.api.accepted_share = in.self_host.accepted_share = 0; }, "neither",
       "no side gives"},
      {[](inputs& in) {
         in.traffic.local_only_share = 0.25;
         in.traffic.requests_per_hour = 1000;
       },
       "self_host", "25% of the requests may not leave and need 1 replica anyway."},
      {[](inputs& in) {
         in.traffic.requests_per_hour = 36'000;
         in.self_host.replicas = 2;
       },
       "self_host", "with 9 replicas in place of the 2 stated, which cannot carry the peak"},
  };
  for (const auto& r : rows) {
    auto in = k3_on_one_node();
    r.change(in);
    const auto shown = report_of(in);
    INFO(verdict(shown.in, shown.out));
    CHECK(has(to_text(shown), r.sentence));
    CHECK(has(to_json(shown), std::string(R"({"verdict":{"side":")") + r.side + '"'));
  }
}

TEST_CASE("a fleet that cannot carry the peak is marked") {
  auto in = k3_on_one_node();
  in.traffic.requests_per_hour = 36'000;
  in.self_host.replicas = 2;
  const auto text = in_single_spaces(to_text(report_of(in)));
  CHECK(has(text, "INFEASIBLE the peak needs 9 replicas; they cost $262,800.00 a month"));
  CHECK(has(text, "450% at the peak"));
}

TEST_CASE("JSON has the amounts to the nano-dollar") {
  const auto json = to_json(report_of(k3_on_one_node()));
  CHECK(has(json, R"("usd_per_month":29200.000000000)"));
  CHECK(has(json, R"("usd_per_accepted_result":0.013888889)"));
  CHECK(has(json, R"("difference_usd_per_month":12848.000000000)"));
  CHECK(has(json, R"("api_hit_rate":{"exists":false})"));
  CHECK(has(json, R"("missing":[])"));
}

TEST_CASE("HTML is one file, and texts of the inputs cannot act in it") {
  auto in = k3_on_one_node();
  in.api.name = "<script>alert('x')</script>";
  in.self_host.name = "a & \"b\" \x1b[2J";
  in.licence = {"<img src=https://example.com/x>"};
  const auto html = to_html(report_of(in));
  CHECK(has(html, "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;"));
  CHECK(has(html, "a &amp; &quot;b&quot; "));
  for (const auto* banned : {"<script", "<img", "<link", "url(", "src=\"", "href=", "\x1b"}) {
    INFO(banned);
    CHECK_FALSE(has(html, banned));
  }
  CHECK(has(html, "default-src 'none'"));
  CHECK(has(html, "<svg viewBox"));
  CHECK(has(html, "break-even, first"));
  CHECK(has(html, "$29,200.00"));
}

TEST_CASE("without numbers there is no plot, and no side is guessed") {
  const auto shown = report_of({});
  CHECK(text_chart(shown).empty());
  CHECK_FALSE(has(to_html(shown), "<svg"));
  CHECK(has(to_text(shown), "22 inputs are missing"));
}

}  // namespace
}  // namespace weir::gateway::costs
