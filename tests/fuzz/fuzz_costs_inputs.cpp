// Arbitrary bytes as a file of inputs: reading ends, every fault is explained, and whatever is accepted is
// compared and shown in all three ways, with amounts that are numbers and texts that cannot act.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "engine/text/printable.hpp"
#include "gateway/costs/read_inputs.hpp"
#include "gateway/costs/report.hpp"

using namespace weir::gateway;

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check_shown(const costs::report& report) {
  const auto text = costs::to_text(report);
  for (const char c : text) require(static_cast<unsigned char>(c) >= 0x20 || c == '\n');
  require(weir::engine::text::is_printable(costs::to_json(report)));
  const auto html = costs::to_html(report);
  require(html.find("<script") == html.npos && html.ends_with("</html>\n"));
}

void check_numbers(const weir::policy::economics::outcome& out) {
  if (out.api) require(out.api->per_hour >= 0 && out.api->per_month >= 0);
  if (!out.own) return;
  require(out.own->cost.per_hour >= 0 && out.own->needed >= 1);
  require(!std::isnan(out.own->utilisation_mean) && !std::isnan(out.own->requests_per_hour));
  require(!out.own->carries || out.own->needed <= out.own->replicas);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto inputs =
      costs::parse_inputs(std::string_view(reinterpret_cast<const char*>(data), size), "/etc/costs.yaml");
  if (!inputs) {
    require(!inputs.error().empty());
    for (const auto& f : inputs.error()) {
      require(f.file == "/etc/costs.yaml" && !f.message.empty() && f.at.line >= 0);
    }
    return 0;
  }
  const costs::report report{.source = "x", .in = *inputs, .out = weir::policy::economics::compare(*inputs)};
  require(report.out.missing.empty() ||
          report.out.what == weir::policy::economics::answer::api_inputs_missing);
  check_numbers(report.out);
  check_shown(report);
  return 0;
}
