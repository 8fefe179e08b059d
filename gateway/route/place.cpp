#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>

#include "gateway/route/model_router_impl.hpp"

namespace weir::gateway::route {

namespace {

using std::chrono::steady_clock;

// While a request waits, targets' work goes on without telling us.
constexpr std::chrono::milliseconds k_tick{25};

// Chains are prefix-chained: where keys are equal, everything before is.
std::size_t shared_units(std::span<const prefix_index::block_key> a,
                         std::span<const prefix_index::block_key> b) {
  std::size_t low = 0;
  std::size_t high = std::min(a.size(), b.size());
  while (low < high) {
    const std::size_t middle = (low + high + 1) / 2;
    if (a[middle - 1] == b[middle - 1]) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

}  // namespace

policy::fair_share::member model_router::member_of(const ask& a) {
  return {.tenant = a.tenant, .weight = a.weight, .priority = a.priority};
}

// Those that wait and begin alike would find what was just sent there: its pages, and the checkpoints that
// the replica's retention puts on them.
void model_router::share_prefix(const ask& sent, std::size_t target) {
  const auto* state = targets_[target].state.get();
  if (!state->has_cache()) return;
  const auto& cache = state->cache();
  const auto unit = static_cast<std::int64_t>(sent.prompt->keys.unit_tokens);
  const auto before = sent.prefixes[target];
  const auto end = whole_blocks(static_cast<std::int64_t>(sent.prompt->chain().size()) * unit, cache);
  const bool at_junctions = cache.retention != "prompt_end" && before.page_tokens > before.reusable_tokens;
  for (const auto& w : waiting_) {
    if (w->request.prompt->keys.unit_tokens != sent.prompt->keys.unit_tokens) continue;
    const auto units = shared_units(w->request.prompt->chain(), sent.prompt->chain());
    const auto pages = whole_blocks(static_cast<std::int64_t>(units) * unit, cache);
    auto reusable = before.reusable_tokens <= pages ? before.reusable_tokens : 0;
    if (at_junctions && before.page_tokens <= pages) reusable = before.page_tokens;
    if (end <= pages || resumes_anywhere(cache)) reusable = std::min(end, pages);
    auto& held = w->request.prefixes[target];
    held.page_tokens = std::max(held.page_tokens, pages);
    held.reusable_tokens = std::max(held.reusable_tokens, reusable);
    if (held.page_tokens > 0 && held.from == policy::evidence::none) held.from = policy::evidence::predicted;
  }
}

void model_router::tick() {
  const auto now = steady_clock::now().time_since_epoch();
  auto due = next_pass_.load(std::memory_order_relaxed);
  if (now < due || !next_pass_.compare_exchange_strong(due, now + k_tick)) return;
  place_waiting();
}

// Those that a pass looks at: all, or, where that would take long, the first of those that come first by
// class and by what their tenants got.
void model_router::choose_waiting(std::vector<waiting_list::iterator>& out) {
  out.clear();
  for (auto at = waiting_.begin(); at != waiting_.end(); ++at) out.push_back(at);
  if (out.size() <= k_placed_together_max) return;
  const auto rank = [this](const waiter& w) {
    return std::pair(-w.request.priority, fair_.lead_tokens(w.request.tenant));
  };
  std::vector<std::pair<std::pair<int, double>, std::size_t>> ranked;
  ranked.reserve(out.size());
  for (std::size_t i = 0; i < out.size(); ++i) ranked.emplace_back(rank(**out[i]), i);
  // The oldest are among them whatever their class: else they would never age.
  const auto fresh = ranked.begin() + k_placed_oldest;
  std::nth_element(fresh, ranked.begin() + k_placed_together_max, ranked.end());
  std::vector<waiting_list::iterator> kept;
  kept.reserve(k_placed_together_max);
  for (std::size_t i = 0; i < k_placed_together_max; ++i) kept.push_back(out[ranked[i].second]);
  out = std::move(kept);
}

void model_router::place_waiting() {
  const std::lock_guard lock(mutex_);
  std::vector<policy::waiting_request> asks;
  std::vector<waiting_list::iterator> chosen;
  while (!waiting_.empty()) {
    const auto now = steady_clock::now();
    const double at_s = now_s();
    asks.clear();
    choose_waiting(chosen);
    for (const auto& at : chosen) {
      const auto& w = *at;
      set_aside(w->request);
      asks.push_back({.facts = w->request.facts,
                      .how = w->request.how,
                      .overflow = terms_.overflow,
                      .prefixes = w->request.prefixes,
                      .excluded = {w->request.excluded.get(), targets_.size()},
                      .set_aside = w->request.set_aside,
                      .waited_s = std::chrono::duration<double>(now - w->request.begun).count(),
                      .seed = w->request.seed,
                      .priority = w->request.priority,
                      .class_waited_s = fair_.class_waited_s(w->request.priority, at_s),
                      .lead_tokens = fair_.lead_tokens(w->request.tenant)});
    }
    const auto targets = views();
    expected_tokens_per_s_ = policy::expected_prefill_rate(targets);
    auto placed = policy::place_next(targets, asks, terms_.placement);
    if (!placed) return;
    const std::shared_ptr<waiter> w = *chosen[placed->request];
    waiting_.erase(chosen[placed->request]);
    if (placed->made.picked == policy::decision::k_none) {
      left(*w);
      w->placed.emplace(std::unexpected(std::move(placed->made)));
    } else {
      const std::size_t target = placed->made.picked;
      const double work = policy::uncached_tokens(w->request.facts, w->request.prefixes[target]);
      unlist(*w, work);
      fair_.served(member_of(w->request), work, at_s);
      w->placed.emplace(dispatch(w->request, std::move(placed->made)));
      share_prefix(w->request, target);
    }
    // Under the lock: the coroutine leaves the list under it too, and with it its thread's io_context may
    // end.
    wake(w);
  }
}

void model_router::wake(const std::shared_ptr<waiter>& w) {
  asio::post(w->executor, [w] {
    if (w->wake) w->wake->cancel();
  });
}

// In the list for as long as it lives, unless it is placed or refused before.
class model_router::waiting_place {
 public:
  waiting_place(model_router& router, const std::shared_ptr<waiter>& w) : router_(router), w_(*w) {
    const std::lock_guard lock(router_.mutex_);
    w_.refused = router_.let_in(w_.request, w_.deadline);
    if (!w_.refused) router_.list(w);
  }

  ~waiting_place() {
    w_.wake.reset();
    std::optional<placing> unused;  // ended outside the lock, which its end takes
    const std::lock_guard lock(router_.mutex_);
    if (w_.placed) unused.emplace(std::move(*w_.placed));
    w_.placed.reset();
    if (!w_.listed) return;
    router_.waiting_.remove_if([this](const auto& other) { return other.get() == &w_; });
    router_.left(w_);
  }
  waiting_place(const waiting_place&) = delete;
  waiting_place& operator=(const waiting_place&) = delete;

 private:
  model_router& router_;
  waiter& w_;
};

task<result<model_router::placing>> model_router::place(const api::generation_call& call,
                                                        const auth::identity& caller,
                                                        std::shared_ptr<const prompt_identity> prompt,
                                                        steady_clock::time_point deadline,
                                                        const policy::failover::attempts& before) {
  const auto begun = steady_clock::now();
  ask request = make_ask(call, caller, prompt, &before);
  const auto decided = [this, begun, took_s = prompt->took_s] {
    const std::chrono::duration<double> since = steady_clock::now() - begun;
    shared_.counters().decision_s->Observe(took_s + since.count());
  };
  if (!policy::may_wait(request.how.kind) || terms_.queue.requests_max == 0) {
    set_aside(request);
    auto made = decide(request);
    decided();
    if (made.picked == policy::decision::k_none) co_return placing(std::unexpected(std::move(made)));
    auto sent = dispatch(request, std::move(made));
    sent.tell_index();
    co_return placing(std::move(sent));
  }
  const io_executor executor = co_await asio::this_coro::executor;
  const auto w = std::make_shared<waiter>(std::move(request), deadline, executor);
  const waiting_place held(*this, w);
  place_waiting();
  decided();
  const auto waits_since = steady_clock::now();
  const auto cancellation = co_await asio::this_coro::cancellation_state;
  for (bool counted = false;; counted = true) {
    std::optional<placing> found;
    {
      const std::lock_guard lock(mutex_);
      if (w->refused) co_return std::unexpected(std::move(*w->refused));
      if (w->placed) found.emplace(std::move(*w->placed));
      w->placed.reset();
      if (!found && is_hopeless(*w)) co_return std::unexpected(shed(observe::shed_why::hopeless, 0));
    }
    if (found) {
      if (*found) (*found)->tell_index();
      if (*found && counted)
        (*found)->waited_s_ = std::chrono::duration<double>(steady_clock::now() - waits_since).count();
      co_return std::move(*found);
    }
    if (!counted) shared_.counters().waited->Increment();
    if (cancellation.cancelled() != asio::cancellation_type::none) co_return fail(errc::client_gone, "");
    if (steady_clock::now() >= deadline) {
      co_return std::unexpected(shed(observe::shed_why::timed_out, 0));
    }
    w->wake->expires_after(k_tick);
    const auto token = asio::as_tuple(use_task);
    co_await w->wake->async_wait(token);
    tick();
  }
}

}  // namespace weir::gateway::route
