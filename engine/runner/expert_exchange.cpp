#include "engine/runner/expert_exchange.hpp"

#include <numeric>

namespace weir::engine::runner {

namespace {

std::vector<std::int64_t> bytes_of(const std::vector<std::int64_t>& counts, std::int64_t each) {
  std::vector<std::int64_t> out(counts);
  for (std::int64_t& bytes : out) bytes *= each;
  return out;
}

}  // namespace

exchange_plan plan_exchange(std::span<const std::int32_t> ids, std::int32_t per_token, std::int32_t experts,
                            const parallel::shard& part) {
  const auto ranks = static_cast<std::size_t>(part.size);
  const auto rows = static_cast<std::int32_t>(ids.size()) / per_token;
  const auto home_of = [&](std::int32_t expert) {
    // The first guess is right but for rounding.
    auto rank = static_cast<std::int32_t>(static_cast<std::int64_t>(expert) * part.size / experts);
    while (part.cut(experts, rank + 1) <= expert) ++rank;
    return static_cast<std::size_t>(rank);
  };
  exchange_plan out;
  out.sent.assign(ranks, 0);
  out.received.assign(ranks, 0);
  const std::int32_t first = part.begin_of(rows);
  const std::int32_t own = part.end_of(rows) - first;
  const auto own_ids = ids.subspan(static_cast<std::size_t>(first) * static_cast<std::size_t>(per_token),
                                   static_cast<std::size_t>(own) * static_cast<std::size_t>(per_token));
  for (const std::int32_t expert : own_ids) ++out.sent[home_of(expert)];
  std::vector<std::int64_t> next(ranks, 0);
  std::exclusive_scan(out.sent.begin(), out.sent.end(), next.begin(), std::int64_t{0});
  out.sent_rows.resize(own_ids.size());
  out.places.resize(own_ids.size());
  for (std::size_t i = 0; i < own_ids.size(); ++i) {
    const auto at = static_cast<std::size_t>(next[home_of(own_ids[i])]++);
    const auto row = static_cast<std::int32_t>(i) / per_token;
    out.sent_rows[at] = row;
    const std::size_t pick = i % static_cast<std::size_t>(per_token);
    out.places[pick * static_cast<std::size_t>(own) + static_cast<std::size_t>(row)] =
        static_cast<std::int32_t>(at);
  }
  for (int from = 0; from < part.size; ++from) {
    const auto begin = static_cast<std::size_t>(part.cut(rows, from)) * static_cast<std::size_t>(per_token);
    const auto end = static_cast<std::size_t>(part.cut(rows, from + 1)) * static_cast<std::size_t>(per_token);
    for (std::size_t i = begin; i < end; ++i) {
      if (home_of(ids[i]) != static_cast<std::size_t>(part.rank)) continue;
      ++out.received[static_cast<std::size_t>(from)];
      out.experts.push_back(ids[i] - part.begin_of(experts));
      out.picks.push_back(static_cast<std::int32_t>(i));
    }
  }
  return out;
}

template <class A>
const std::int32_t* expert_exchange<A>::place(const std::vector<std::int32_t>& numbers,
                                              scratch<std::int32_t>& to) {
  std::int32_t* const out = to.need(static_cast<std::int64_t>(numbers.size()));
  device_.upload(out, numbers.data(), numbers.size() * sizeof(std::int32_t));
  return out;
}

template <class A>
template <class T>
void expert_exchange<A>::share_rows(T* all, std::int32_t rows, std::int64_t dim) {
  ranks_.all_gather(all + part_.begin_of(rows) * dim, all,
                    part_.by_rank(rows, dim * static_cast<std::int64_t>(sizeof(T))));
}

template <class A>
void expert_exchange<A>::run(const exchanged_experts<A>& p, const kernels::kernel_table<A>& table) {
  const std::int64_t dim = p.experts.dim;
  const kernels::context plain = device_.context();
  share_rows(p.ids, p.rows, p.per_token);
  share_rows(p.weights, p.rows, p.per_token);
  ids_.resize(static_cast<std::size_t>(p.rows) * static_cast<std::size_t>(p.per_token));
  device_.download(ids_.data(), p.ids, ids_.size() * sizeof(std::int32_t));
  const exchange_plan plan = plan_exchange(ids_, p.per_token, p.experts_in_all, part_);
  const auto sent = static_cast<std::int32_t>(parallel::sum_of(plan.sent));
  const auto received = static_cast<std::int32_t>(parallel::sum_of(plan.received));
  const std::int32_t own = part_.end_of(p.rows) - part_.begin_of(p.rows);
  A* const out = out_.need(sent * dim);
  A* const in = in_.need(received * dim);
  if (sent > 0) table.gather({p.x, place(plan.sent_rows, rows_), out, sent, p.experts.dim}, plain);
  const auto row_bytes = dim * static_cast<std::int64_t>(sizeof(A));
  const auto sent_bytes = bytes_of(plan.sent, row_bytes);
  const auto received_bytes = bytes_of(plan.received, row_bytes);
  ranks_.all_to_all(out, sent_bytes, in, received_bytes);
  A* const done = done_.need(received * dim);
  if (received > 0) {
    A* const weights = weights_.need(received);
    table.gather({p.weights, place(plan.picks, picks_), weights, received, 1}, plain);
    kernels::experts_params<A> mine = p.experts;
    mine.x = in;
    mine.y = done;
    mine.ids = place(plan.experts, experts_);
    mine.weights = weights;
    mine.rows = received;
    mine.per_token = 1;
    const std::size_t bytes = table.experts_workspace_bytes(mine, device_.thread_count());
    table.experts(mine, device_.context(workspace_.need(static_cast<std::int64_t>(bytes)), bytes));
  }
  A* const back = back_.need(sent * dim);
  ranks_.all_to_all(done, received_bytes, back, sent_bytes);
  if (own == 0) return;
  const std::int32_t* const places = place(plan.places, places_);
  A* const one = one_.need(own * dim);
  for (std::int32_t pick = 0; pick < p.per_token; ++pick) {
    A* const to = pick == 0 ? p.y : one;
    table.gather({back, places + static_cast<std::int64_t>(pick) * own, to, own, p.experts.dim}, plain);
    if (pick > 0) table.add({p.y, one, own * dim}, plain);
  }
}

template class expert_exchange<double>;
template class expert_exchange<float>;
template void expert_exchange<double>::share_rows(double*, std::int32_t, std::int64_t);
template void expert_exchange<float>::share_rows(float*, std::int32_t, std::int64_t);

}  // namespace weir::engine::runner
