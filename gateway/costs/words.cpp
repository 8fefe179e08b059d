#include "gateway/costs/words.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace weir::gateway::costs {

using namespace policy::economics;

namespace {

constexpr usd_nano k_nano_per_millionth = 1000;

std::string replicas(std::int64_t count) {
  return fmt::format("{} replica{}", grouped(count), count == 1 ? "" : "s");
}

// Of the API in a sentence about what it is for.
std::string for_what_may_leave(const outcome& out) {
  if (!out.isolated || out.isolated->share <= 0) return {};
  return fmt::format(" That is for what may leave; {} of the requests may not and stay on own machines.",
                     in_percent(out.isolated->share));
}

// What may not leave needs machines anyway: the choice is between those alone and machines for all.
std::string mixed(const inputs& in, const outcome& out) {
  const auto& of = *out.isolated;
  return fmt::format(
      "{} of the requests may not leave and need {} anyway. With {} for the rest that is {} a month; with "
      "own "
      "machines for all, {}: a difference of {} a month.",
      in_percent(of.share), replicas(*of.replicas), in.api.name, in_cents(*of.mixed_per_month),
      in_cents(*of.own_per_month), in_cents(*out.saved_per_month));
}

std::string compared(const inputs& in, const outcome& out) {
  const auto& own = out.own->carries ? out.own->cost : *out.own->cost_needed;
  const auto amount = [](const std::optional<usd_nano>& usd) {
    return usd ? in_millionths(*usd) : std::string("nothing, for none is accepted,");
  };
  if (out.isolated && out.isolated->mixed_per_month) return mixed(in, out);
  auto text = fmt::format("an accepted result costs {} on {} and {} at {}", amount(own.per_accepted),
                          in.self_host.name, amount(out.api->per_accepted), in.api.name);
  if (!out.own->carries) {
    text += fmt::format(", with {} in place of the {} stated, which cannot carry the peak",
                        replicas(out.own->needed), grouped(out.own->replicas));
  }
  if (out.saved_per_month) {
    text += fmt::format(": a difference of {} a month", in_cents(*out.saved_per_month));
  }
  return text + '.';
}

std::string no_fit(const outcome& out) {
  const auto& memory = out.operations.memory;
  if (memory && !memory->fits) {
    return memory->gpus_min > 0
               ? fmt::format("a replica cannot hold the model: it takes {} such GPUs at least.",
                             grouped(memory->gpus_min))
               : "a replica cannot hold the model: its runtime leaves no memory on a GPU.";
  }
  if (out.own && out.own->bound == "memory") {
    return "no sequence of the mean length fits beside the weights, or no fleet holds all at once.";
  }
  return fmt::format("no fleet of up to {} replicas carries the load.", grouped(k_replicas_max));
}

}  // namespace

std::string grouped(std::int64_t number) {
  auto digits = fmt::format("{}", number);
  const std::size_t first = number < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

std::string in_cents(usd_nano amount) {
  if (amount == std::numeric_limits<usd_nano>::max()) return "over $9,223,372,036";
  const auto cents = to_cents(amount);
  return fmt::format("${}.{:02}", grouped(cents / 100), cents % 100);
}

std::string in_millionths(usd_nano amount) {
  constexpr std::int64_t million = 1'000'000;
  const auto rounded =
      amount / k_nano_per_millionth + (amount % k_nano_per_millionth >= k_nano_per_millionth / 2 ? 1 : 0);
  return fmt::format("${}.{:06}", grouped(rounded / million), rounded % million);
}

std::string in_json(usd_nano amount) {
  return fmt::format("{}.{:09}", amount / policy::limits::k_usd, amount % policy::limits::k_usd);
}

std::string in_percent(double share) {
  return fmt::format("{:.4g}%", share * 100);
}

std::string in_count(double number) {
  constexpr double whole = 100, most = 9e15;
  if (std::isinf(number)) return "any number of";
  if (number < whole) return fmt::format("{:.3g}", number);
  return number < most ? grouped(std::llround(number)) : fmt::format("{:.3g}", number);
}

std::string_view side_of(answer what) {
  switch (what) {
    case answer::self_host_cheaper:
    case answer::nothing_may_leave:
      return "self_host";
    case answer::equal:
      return "equal";
    case answer::neither:
    case answer::nothing_serves:
      return "neither";
    case answer::api_inputs_missing:
    case answer::api_no_traffic:
    case answer::api_does_not_fit:
    case answer::api_cheaper:
      return "api";
  }
  return "api";
}

std::string_view reason_of(answer what) {
  switch (what) {
    case answer::api_inputs_missing:
      return "inputs_missing";
    case answer::api_no_traffic:
      return "no_traffic";
    case answer::api_does_not_fit:
      return "does_not_fit";
    case answer::api_cheaper:
    case answer::self_host_cheaper:
      return "cheaper";
    case answer::equal:
      return "equal";
    case answer::neither:
      return "none_accepted";
    case answer::nothing_may_leave:
      return "nothing_may_leave";
    case answer::nothing_serves:
      return "nothing_serves";
  }
  return "unknown";
}

std::string verdict(const inputs& in, const outcome& out) {
  switch (out.what) {
    case answer::api_inputs_missing:
      return fmt::format(
          "UNDECIDED, so stay with the API: {} input{} missing, each named in this report, and nothing is "
          "bought on a guess.{}",
          out.missing.size(), out.missing.size() == 1 ? " is" : "s are", for_what_may_leave(out));
    case answer::api_no_traffic:
      return "USE THE API: there is no traffic, and machines cost the same without it." +
             for_what_may_leave(out);
    case answer::api_does_not_fit:
      return "USE THE API: " + no_fit(out) + for_what_may_leave(out);
    case answer::api_cheaper:
      if (out.isolated && out.isolated->mixed_per_month) return "USE BOTH: " + mixed(in, out);
      return "USE THE API: " + compared(in, out) + for_what_may_leave(out);
    case answer::self_host_cheaper:
      return "SELF-HOST: " + compared(in, out);
    case answer::equal:
      return "EITHER: " + compared(in, out) + " What decides is the operational load." +
             for_what_may_leave(out);
    case answer::neither:
      return "NEITHER: no side gives an accepted result.";
    case answer::nothing_may_leave:
      return "SELF-HOST: no request may leave, so there is no other side to compare with.";
    case answer::nothing_serves:
      return "NEITHER: no request may leave, and " + no_fit(out);
  }
  return {};
}

std::vector<line> fleet_lines(const inputs& in, const outcome& out) {
  std::vector<line> lines;
  if (!out.own) return lines;
  const auto& own = *out.own;
  if (!own.stated && own.needed > k_replicas_max) {
    lines.push_back({"fleet", "none: " + no_fit(out)});
    return lines;
  }
  lines.push_back({"fleet", fmt::format("{} ({}), {} of them spare", replicas(own.replicas),
                                        own.stated ? "as stated" : "as many as the peak needs",
                                        grouped(in.self_host.spare_replicas))});
  lines.push_back(
      {"busy", fmt::format("{} on average, {} at the peak; bound by {}", in_percent(own.utilisation_mean),
                           in_percent(own.utilisation_peak), own.bound)});
  lines.push_back(
      {"carries", fmt::format("{} requests per hour on average", in_count(own.requests_per_hour))});
  if (!own.carries) {
    lines.push_back(
        {"INFEASIBLE", own.needed <= k_replicas_max
                           ? fmt::format("the peak needs {}; they cost {} a month", replicas(own.needed),
                                         in_cents(own.cost_needed->per_month))
                           : no_fit(out)});
  }
  for (const auto& cost : own.lines) {
    const double usd = cost.usd_per_replica_hour * static_cast<double>(own.replicas) + cost.usd_per_hour;
    lines.push_back({std::string(cost.name), in_cents(to_nano(usd)) + " per hour"});
  }
  return lines;
}

std::vector<line> licence_lines(const inputs& in) {
  std::vector<line> lines;
  for (const auto& text : in.licence) lines.push_back({"[ ] to check", text});
  if (lines.empty()) lines.push_back({"[ ] to check", "what the licence of the weights asks of this use"});
  return lines;
}

}  // namespace weir::gateway::costs
