#include "loadtest/replay/gateway_numbers.hpp"

#include <charconv>
#include <cmath>

namespace weir::loadtest::replay {

namespace {

struct sample {
  std::string_view name;
  std::string_view labels;
  double value = 0;
};

// What a counter or a bound of a bucket can be.
bool read_number(std::string_view text, double& out) {
  if (text.starts_with('+')) text.remove_prefix(1);  // +Inf
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size() && out >= 0;
}

bool read_line(std::string_view line, sample& out) {
  const auto space = line.rfind(' ');
  if (line.starts_with('#') || space == std::string_view::npos) return false;
  if (!read_number(line.substr(space + 1), out.value) || std::isinf(out.value)) return false;
  line = line.substr(0, space);
  const auto brace = line.find('{');
  out.name = line.substr(0, brace);
  out.labels = brace == std::string_view::npos ? std::string_view() : line.substr(brace);
  return true;
}

// Names of targets have no quotes.
std::string_view label(const sample& of, std::string_view name) {
  const auto wanted = std::string(name) + "=\"";
  for (auto at = of.labels.find(wanted); at != std::string_view::npos; at = of.labels.find(wanted, at + 1)) {
    if (at == 0 || (of.labels[at - 1] != '{' && of.labels[at - 1] != ',')) continue;
    const auto value = of.labels.substr(at + wanted.size());
    return value.substr(0, value.find('"'));
  }
  return {};
}

void take(const sample& one, gateway_numbers& out) {
  if (one.name == "weir_prefix_tokens_total") {
    out.routes = true;
    const auto kind = label(one, "kind");
    if (kind == "prompt") out.prompt_tokens += one.value;
    if (kind == "predicted") out.predicted_tokens += one.value;
    if (kind == "error") out.error_tokens += one.value;
  } else if (one.name == "weir_upstream_attempts_total") {
    if (label(one, "outcome") == "ok") out.answers[std::string(label(one, "target"))] += one.value;
  } else if (one.name == "weir_route_decision_seconds_bucket") {
    double bound = 0;
    if (read_number(label(one, "le"), bound)) out.decisions_upto[bound] += one.value;
  }
}

}  // namespace

double gateway_numbers::answers_in_all() const {
  double out = 0;
  for (const auto& [target, count] : answers) out += count;
  return out;
}

double gateway_numbers::decision_s(double share) const {
  if (decisions_upto.empty()) return 0;
  const double wanted = share * decisions_upto.rbegin()->second;
  double lower = 0;
  double before = 0;
  for (const auto& [bound, count] : decisions_upto) {
    if (count > 0 && count >= wanted)
      return std::isinf(bound) ? lower : lower + (bound - lower) * (wanted - before) / (count - before);
    lower = bound;
    before = count;
  }
  return 0;
}

gateway_numbers read_numbers(std::string_view page) {
  gateway_numbers out;
  while (!page.empty()) {
    const auto end = page.find('\n');
    sample one;
    if (read_line(page.substr(0, end), one)) take(one, out);
    if (end == std::string_view::npos) break;
    page.remove_prefix(end + 1);
  }
  return out;
}

gateway_numbers since(const gateway_numbers& after, const gateway_numbers& before) {
  auto out = after;
  out.prompt_tokens -= before.prompt_tokens;
  out.predicted_tokens -= before.predicted_tokens;
  out.error_tokens -= before.error_tokens;
  for (const auto& [target, count] : before.answers) out.answers[target] -= count;
  for (const auto& [bound, count] : before.decisions_upto) out.decisions_upto[bound] -= count;
  return out;
}

}  // namespace weir::loadtest::replay
