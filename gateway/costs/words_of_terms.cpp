#include <fmt/format.h>

#include "gateway/costs/words.hpp"

namespace weir::gateway::costs {

using namespace policy::economics;

namespace {

constexpr double k_hours_per_day = 24;

std::string load_words(const outcome& out, double requests_per_hour) {
  auto text = fmt::format("{} requests per hour", in_count(requests_per_hour));
  if (out.tokens_per_request > 0) {
    text += fmt::format(" ({} tokens per day)",
                        in_count(requests_per_hour * out.tokens_per_request * k_hours_per_day));
  }
  return text;
}

std::string load_of(const outcome& out, const crossing& at, std::string_view never) {
  switch (at.what) {
    case crossing::kind::at:
      return fmt::format("{}, with {} replica{}", load_words(out, at.value),
                         in_count(static_cast<double>(at.replicas)), at.replicas == 1 ? "" : "s");
    case crossing::kind::always:
      return "at any load: the machines cost nothing";
    case crossing::kind::never:
      return "none: " + std::string(never);
  }
  return {};
}

std::string own_rate(const inputs& in, const break_evens& even) {
  const auto given = in_percent(in.self_host.hit_rate.value_or(0));
  switch (even.self_hit_rate.what) {
    case crossing::kind::at:
      return fmt::format("{} of the prompt tokens at this load, with {} replicas (given: {})",
                         in_percent(even.self_hit_rate.value), grouped(even.self_hit_rate.replicas), given);
    case crossing::kind::always:
      return fmt::format("none needed: at this load self-hosting pays even without hits (given: {})", given);
    case crossing::kind::never:
      return fmt::format("none: at this load it does not pay even with {} (given: {})",
                         in_percent(in.traffic.reuse_share), given);
  }
  return {};
}

std::string api_rate(const inputs& in, const break_evens& even) {
  const auto given = in_percent(in.api.hit_rate.value_or(0));
  switch (even.api_hit_rate.what) {
    case crossing::kind::at:
      return fmt::format("{}: above it the API is cheaper at this load (given: {})",
                         in_percent(even.api_hit_rate.value), given);
    case crossing::kind::always:
      return fmt::format("none: the API is cheaper at any (given: {})", given);
    case crossing::kind::never:
      return fmt::format("none: the API is dearer even with {} (given: {})",
                         in_percent(in.traffic.reuse_share), given);
  }
  return {};
}

void add_failures(const operational_load& load, std::vector<line>& lines) {
  if (!load.failing) return;
  lines.push_back(
      {"failures", fmt::format("{} replica losses a month expected; one is down {} of the time",
                               in_count(load.losses_per_month), in_percent(load.failing->down_share))});
  if (!load.spares_needed) {
    lines.push_back({"spares", fmt::format("{} kept; no sensible number is enough", grouped(load.spares))});
  } else {
    lines.push_back(
        {"spares", fmt::format("{} kept, {} needed{}", grouped(load.spares), grouped(*load.spares_needed),
                               load.spares < *load.spares_needed ? ": TOO FEW" : "")});
  }
}

}  // namespace

std::vector<line> break_even_lines(const inputs& in, const outcome& out) {
  std::vector<line> lines;
  if (!out.even) return lines;
  const auto& even = *out.even;
  const bool is_stated = out.own && out.own->stated;
  lines.push_back({is_stated ? "load, these replicas" : "load, same replicas",
                   load_of(out, even.fleet_load,
                           fmt::format("they carry {} requests per hour, which do not pay for them",
                                       in_count(out.own->requests_per_hour)))});
  lines.push_back(
      {"load, first time",
       load_of(out, even.first_load, "a full replica costs more than the API takes for what it does")});
  lines.push_back(
      {"load, for good",
       load_of(out, even.lasting_load, "each further replica is dearer than the API when it is started")});
  if (in.traffic.requests_per_hour.value_or(0) > 0) {
    lines.push_back({"own hit rate", own_rate(in, even)});
    lines.push_back({"API hit rate", api_rate(in, even)});
  }
  return lines;
}

std::vector<line> isolation_lines(const inputs& in, const outcome& out) {
  if (!out.isolated) return {{"may not leave", "unknown"}};
  const auto& isolated = *out.isolated;
  if (isolated.share <= 0) return {{"may not leave", "nothing: all requests have both sides to choose from"}};
  std::vector<line> lines{
      {"may not leave",
       fmt::format("{} of the requests ({} per hour): for them there is no API, at any price",
                   in_percent(isolated.share), in_count(isolated.requests_per_hour))}};
  if (isolated.replicas) {
    lines.push_back({"they alone need",
                     fmt::format("{} replica{}, {} of them spare", grouped(*isolated.replicas),
                                 *isolated.replicas == 1 ? "" : "s", grouped(in.self_host.spare_replicas))});
  }
  if (isolated.mixed_per_month) {
    lines.push_back({"with the API for the rest", in_cents(*isolated.mixed_per_month) + " a month"});
    lines.push_back({"own machines for all", in_cents(*isolated.own_per_month) + " a month"});
  }
  lines.push_back(
      {"note", "the costs above compare all requests, as if all could leave; the verdict does not"});
  return lines;
}

std::vector<line> operation_lines(const outcome& out) {
  std::vector<line> lines;
  const auto& load = out.operations;
  if (load.memory) {
    lines.push_back({"memory", load.memory->fits
                                   ? fmt::format("the weights leave {} bytes of each GPU",
                                                 grouped(load.memory->free_bytes_per_gpu))
                                   : fmt::format("the weights do NOT fit: {} bytes are missing on each GPU",
                                                 grouped(-load.memory->free_bytes_per_gpu))});
    for (const auto& context : load.contexts) {
      lines.push_back({fmt::format("{} tokens", grouped(context.tokens)),
                       fmt::format("{} sequences at once in a replica, {} in all that serve",
                                   grouped(context.per_replica), grouped(context.in_all))});
    }
  }
  if (load.sequences_at_peak) {
    lines.push_back({"at the peak", fmt::format("{} sequences at once", in_count(*load.sequences_at_peak))});
  }
  add_failures(load, lines);
  if (load.on_call_hours_per_month) {
    lines.push_back({"on call", fmt::format("{} hours a month, {}", in_count(*load.on_call_hours_per_month),
                                            load.on_call_is_priced ? "in the costs above"
                                                                   : "not in the costs: no rate is given")});
  }
  if (lines.empty()) lines.push_back({"unknown", "memory, failures and hours on call are not given"});
  return lines;
}

}  // namespace weir::gateway::costs
