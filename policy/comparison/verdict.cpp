#include "policy/comparison/verdict.hpp"

#include <cmath>
#include <cstdarg>
#include <cstdio>

namespace weir::policy::comparison {

namespace {

constexpr double k_percent = 100;
constexpr double k_ms_per_s = 1000;

[[gnu::format(printf, 1, 2)]] std::string print(const char* format, ...) {
  char text[256];
  va_list values;
  va_start(values, format);
  std::vsnprintf(text, sizeof text, format, values);
  va_end(values);
  return text;
}

// With three digits that say something.
std::string number(double value) {
  const double size = std::abs(value);
  const int behind = size == 0 || size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return print("%.*f", behind, value);
}

std::string time(double ms) {
  return std::abs(ms) >= 10 * k_ms_per_s ? number(ms / k_ms_per_s) + " s" : number(ms) + " ms";
}

std::string percent(double share) {
  return number(share * k_percent) + "%";
}

std::string dollars(double usd) {
  return usd >= 1 ? print("$%.2f", usd) : print("$%.6f", usd);
}

// Of a magnitude whose sign says who is ahead: both ends turned so that they read as amounts.
std::string between(const interval& in, bool turned, std::string (*say)(double)) {
  const double sign = turned ? -1 : 1;
  const auto& low = turned ? in.high : in.low;
  const auto& high = turned ? in.low : in.high;
  if (!low || !high) return "with no interval";
  return "95% interval " + say(sign * *low) + " to " + say(sign * *high);
}

bool excludes_zero(const interval& in) {
  return in.low && in.high && (*in.low > 0 || *in.high < 0);
}

sureness sureness_of(const interval& p95, const interval& p99) {
  if (!excludes_zero(p95)) return sureness::unknown;
  return excludes_zero(p99) ? sureness::sure : sureness::likely;
}

std::string pairs_text(std::size_t n) {
  return std::to_string(n) + (n == 1 ? " pair" : " pairs");
}

std::string no_difference(std::size_t n) {
  return "no difference can be told from " + pairs_text(n);
}

std::string ending(sureness how) {
  return ", " + std::string(to_text(how));
}

std::string without_price(const report& of) {
  const auto& price = of.price;
  std::string who;
  if (price.primary.unpriced > 0) who = of.primary;
  if (price.shadow.unpriced > 0) who += (who.empty() ? "" : " and ") + of.shadow;
  if (who.empty()) return "cannot be told: fewer than two pairs in which both sides answered cost anything";
  return "cannot be told: no full price per token is set for " + who +
         " (targets[].price); for hardware of one's own, cost per token depends on its load";
}

finding cheaper(const report& of) {
  finding out{.question = "Cheaper"};
  const auto& price = of.price;
  if (!price.shadow_saves) {
    out.words = without_price(of) + ".";
    return out;
  }
  const auto& saves = *price.shadow_saves;
  const double n = static_cast<double>(price.n);
  out.how = sureness_of(saves.p95, saves.p99);
  const std::string each = " A request cost " + dollars(limits::to_usd(price.primary.total) / n) + " at " +
                           of.primary + " and " + dollars(limits::to_usd(price.shadow.total) / n) + " at " +
                           of.shadow + "; a million tokens " + dollars(price.primary.usd_per_mtok()) +
                           " and " + dollars(price.shadow.usd_per_mtok()) + ".";
  if (out.how == sureness::unknown) {
    out.words = no_difference(price.n) + " (" + between(saves.p95, false, percent) + ")." + each;
    return out;
  }
  const bool shadow = saves.share > 0;
  out.who = shadow ? winner::shadow : winner::primary;
  // Of what the dearer side costs: 1 - 1 / (1 + x) where the shadow costs x more.
  const auto as_saving = [shadow](double share) { return shadow ? share : -share / (1 - share); };
  interval in;
  if (saves.p95.low) in.low = as_saving(*saves.p95.low);
  if (saves.p95.high) in.high = as_saving(*saves.p95.high);
  if (!shadow) std::swap(in.low, in.high);
  out.words = (shadow ? of.shadow : of.primary) + ", by " + percent(as_saving(saves.share)) + " (" +
              between(in, false, percent) + ")" + ending(out.how) + "." + each;
  return out;
}

finding faster(const report& of, const char* question, const quantity& q) {
  finding out{.question = question};
  const auto& d = q.between;
  if (d.n == 0) {
    out.words = "cannot be told: no pair in which both sides were measured.";
    return out;
  }
  const std::string medians = " Medians: " + of.primary + " " + time(q.primary.median) + ", " + of.shadow +
                              " " + time(q.shadow.median) + ".";
  out.how = sureness_of(d.p95, d.p99);
  if (out.how == sureness::unknown) {
    out.words = no_difference(d.n) + " (" + between(d.p95, false, time) + ")." + medians;
    return out;
  }
  const bool shadow = d.median < 0;
  out.who = shadow ? winner::shadow : winner::primary;
  out.words = (shadow ? of.shadow : of.primary) + ", by " + time(std::abs(d.median)) +
              " in the median pair (" + between(d.p95, shadow, time) + ")" + ending(out.how) + "." + medians;
  return out;
}

// Of the slowest, no pairs are compared: a side's slow answers are to other requests than the other's.
finding slowest(const report& of) {
  finding out{.question = "Slowest requests (1 in 100, to the end)"};
  const auto& a = of.end_to_end_ms.primary;
  const auto& b = of.end_to_end_ms.shadow;
  if (a.n == 0 || b.n == 0) {
    out.words = "cannot be told: a side has no answer that was measured.";
    return out;
  }
  const std::string figures =
      of.primary + " takes " + time(a.p99) + " or more, " + of.shadow + " " + time(b.p99);
  const bool bounded = a.p99_in.low && a.p99_in.high && b.p99_in.low && b.p99_in.high;
  if (!bounded) {
    out.words = figures + "; too few pairs to tell how sure that is.";
    return out;
  }
  const bool primary = *a.p99_in.high < *b.p99_in.low;
  const bool shadow = *b.p99_in.high < *a.p99_in.low;
  if (!primary && !shadow) {
    out.words = figures + "; their 95% intervals overlap, so no difference can be told.";
    return out;
  }
  out.who = primary ? winner::primary : winner::shadow;
  out.how = sureness::sure;  // both intervals of 95% hold apart: beyond 99%
  out.words = (primary ? of.primary : of.shadow) + ", sure: " + figures + ".";
  return out;
}

std::string fails(const std::string& name, const share& of) {
  return name + " fails " + percent(of.value()) + " of requests (" + std::to_string(of.hits) + " of " +
         std::to_string(of.n) + "; 95% interval " + percent(of.in.low.value_or(0)) + " to " +
         percent(of.in.high.value_or(1)) + ")";
}

finding more_reliable(const report& of) {
  finding out{.question = "More reliable"};
  const auto& r = of.reliability;
  const std::string figures =
      fails(of.primary, r.primary_fails) + ", " + fails(of.shadow, r.shadow_fails) + ".";
  constexpr double k_likely = 0.05;
  constexpr double k_sure = 0.01;
  if (r.p_value < k_likely) out.how = r.p_value < k_sure ? sureness::sure : sureness::likely;
  if (out.how == sureness::unknown) {
    out.words = no_difference(of.pairs) + ". " + figures;
    return out;
  }
  const bool shadow = r.only_primary_failed > r.only_shadow_failed;
  out.who = shadow ? winner::shadow : winner::primary;
  constexpr double k_shown = 0.001;
  const std::string p = r.p_value < k_shown ? "below 0.001" : number(r.p_value);
  out.words = (shadow ? of.shadow : of.primary) + ending(out.how) + " (McNemar p " + p + "). " + figures;
  return out;
}

std::string also_equal(const char* what, const share& of) {
  if (of.n == 0) return {};
  return " " + std::string(what) + " are equal in " + percent(of.value()) + " of " +
         pairs_text(static_cast<std::size_t>(of.n)) + " that have any.";
}

finding same_answers(const report& of) {
  finding out{.question = "Same answers"};
  const auto& alike = of.alike;
  if (alike.overlap.n == 0) {
    out.words = "cannot be told: no pair in which both sides answered whole.";
    return out;
  }
  out.words = percent(alike.exact.value()) + " of " + pairs_text(alike.overlap.n) +
              " are the same to the byte (95% interval " + percent(alike.exact.in.low.value_or(0)) + " to " +
              percent(alike.exact.in.high.value_or(1)) + "); the median pair shares " +
              percent(alike.overlap.median) + " of its words." + also_equal("JSON answers", alike.json) +
              also_equal("Tool calls", alike.tools);
  if (alike.cut > 0) {
    out.words += " Of " + pairs_text(static_cast<std::size_t>(alike.cut)) + " only the begin was compared.";
  }
  return out;
}

}  // namespace

std::string_view to_text(sureness how) noexcept {
  switch (how) {
    case sureness::unknown:
      return "";
    case sureness::likely:
      return "likely";
    case sureness::sure:
      return "sure";
  }
  return "";
}

std::vector<finding> verdict(const report& of) {
  std::vector<finding> out;
  out.push_back(cheaper(of));
  out.push_back(faster(of, "Faster to the first token", of.ttft_ms));
  out.push_back(faster(of, "Faster between tokens", of.itl_ms));
  out.push_back(faster(of, "Faster to the end", of.end_to_end_ms));
  out.push_back(slowest(of));
  out.push_back(more_reliable(of));
  out.push_back(same_answers(of));
  return out;
}

}  // namespace weir::policy::comparison
