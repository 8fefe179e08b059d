#include "loadtest/chaos/plan.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace weir::loadtest::chaos {

namespace {

constexpr act_row k_acts[] = {
    {act::reset, "reset"},           {act::reset_request, "reset-request"},
    {act::half_close, "half-close"}, {act::black_hole, "black-hole"},
    {act::garble, "garble"},         {act::add, "add"},
    {act::refuse, "refuse"},
};

constexpr std::uint64_t k_rate_steps_per_s = 100;

}  // namespace

std::span<const act_row> act_table() {
  return k_acts;
}

std::string_view act_name(act kind) {
  return std::ranges::find(k_acts, kind, &act_row::kind)->name;
}

connection_plan draw_plan(const chaos_options& options, std::mt19937_64& random) {
  connection_plan out;
  if (options.share < 1 && std::uniform_real_distribution<double>(0, 1)(random) >= options.share) return out;
  auto acts = options.acts;
  if (options.random_schedule) {
    const auto kind =
        k_acts[std::uniform_int_distribution<std::size_t>(0, std::size(k_acts) - 1)(random)].kind;
    acts.assign({{kind, std::uniform_int_distribution<std::uint64_t>(options.k_min, options.k_max)(random)}});
  }
  std::ranges::sort(acts, {}, [](const planned_act& one) { return std::pair(one.at, one.kind); });
  for (const auto& one : acts) {
    if (one.kind == act::refuse) {
      out.refuse = true;
    } else {
      out.of(one.kind == act::reset_request ? direction::to_server : direction::to_client).push_back(one);
    }
  }
  out.touched = !acts.empty() || !options.add_at_end.empty();
  return out;
}

std::uint64_t send_bytes_max(const chaos_options& options) {
  auto most = std::numeric_limits<std::uint64_t>::max();
  if (options.piece_bytes > 0) most = options.piece_bytes;
  if (options.rate_bytes_per_s > 0)
    most = std::min(most, std::max<std::uint64_t>(1, options.rate_bytes_per_s / k_rate_steps_per_s));
  return most;
}

}  // namespace weir::loadtest::chaos
