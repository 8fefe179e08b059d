#include "gateway/route/model_router.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <cmath>

namespace weir::gateway::route {

namespace {

using std::chrono::steady_clock;

// While a request waits, targets' work goes on without telling us.
constexpr std::chrono::milliseconds k_tick{25};

// Of what a session sent before, this part is assumed to be still held by a target that no index sees.
constexpr std::int64_t k_session_credit_divisor = 2;

policy::evidence to_evidence(prefix_index::confidence from) noexcept {
  switch (from) {
    case prefix_index::confidence::none:
      return policy::evidence::none;
    case prefix_index::confidence::restored:
      return policy::evidence::restored;
    case prefix_index::confidence::predicted:
      return policy::evidence::predicted;
    case prefix_index::confidence::observed:
      return policy::evidence::observed;
    case prefix_index::confidence::confirmed:
      return policy::evidence::confirmed;
  }
  return policy::evidence::none;
}

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

std::string chain_name(const std::string& model, const engine::text::tokenizer* tokenizer) {
  return tokenizer == nullptr ? model : fmt::format("{}#{:016x}", model, tokenizer->fingerprint());
}

struct model_router::ask {
  policy::request_facts facts;
  policy::scoring how;
  std::shared_ptr<const prompt_identity> prompt;
  std::unique_ptr<bool[]> excluded;
  std::vector<policy::prefix_view> prefixes;  // one per target
  std::optional<std::uint64_t> session;
  std::string tenant;
  std::int64_t weight = 1;
  int priority = 0;
  std::uint64_t seed = 0;
  steady_clock::time_point begun;
  bool streams = false;
};

policy::fair_share::member model_router::member_of(const ask& a) {
  return {.tenant = a.tenant, .weight = a.weight, .priority = a.priority};
}

// Shared by the waiting coroutine and whoever places it. The timer belongs to the coroutine's thread; it is
// gone when the coroutine has left.
struct model_router::waiter {
  waiter(ask a, io_executor e) : request(std::move(a)), executor(e), wake(std::in_place, e) {}

  ask request;
  io_executor executor;
  std::optional<io_timer> wake;
  std::optional<placing> placed;  // under the router's lock
  bool listed = true;             // under the router's lock
};

model_router::model_router(model_terms terms, std::vector<routed_target> targets,
                           std::span<const policy::rule> rules, services& shared)
    : terms_(std::move(terms)),
      chain_model_(chain_name(terms_.name, terms_.tokenizer.get())),
      targets_(std::move(targets)),
      rules_(rules),
      shared_(shared) {
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    marks_.push_back(session_memory::target_mark(targets_[i].state->name()));
    if (!targets_[i].state->has_cache()) continue;
    ids_.push_back(targets_[i].state->id());
    cached_.push_back(i);
    if (!targets_[i].state->cache().salted) all_shared_ = true;
  }
}

model_router::~model_router() = default;

std::vector<policy::target_view> model_router::views() const {
  std::vector<policy::target_view> out;
  out.reserve(targets_.size());
  const double now = now_s();
  for (const auto& t : targets_) {
    out.push_back(t.target->view());
    t.state->fill(out.back(), now);
  }
  return out;
}

void model_router::look_up(ask& a) const {
  a.prefixes.assign(targets_.size(), {});
  if (ids_.empty()) return;
  const auto chain = a.prompt->chain();
  std::vector<prefix_index::holding> holdings(ids_.size());
  shared_.index().find(chain, ids_, holdings);
  const auto unit = static_cast<std::int64_t>(a.prompt->keys.unit_tokens);
  for (std::size_t i = 0; i < holdings.size(); ++i) {
    const auto& cache = targets_[cached_[i]].state->cache();
    a.prefixes[cached_[i]] = {.page_tokens = whole_blocks(holdings[i].pages * unit, cache),
                              .reusable_tokens = whole_blocks(holdings[i].checkpoint * unit, cache),
                              .from = to_evidence(holdings[i].checkpoint_from)};
  }
}

void model_router::recall_session(ask& a) const {
  if (!a.session) return;
  const auto last = shared_.sessions().find(*a.session);
  if (!last) return;
  const auto at = std::find(marks_.begin(), marks_.end(), last->target);
  if (at == marks_.end()) return;
  const auto target = static_cast<std::size_t>(at - marks_.begin());
  a.facts.session_target = target;
  // No index sees this target's cache, so that the client's word is all there is.
  if (targets_[target].state->has_cache()) return;
  const auto known = std::min(last->prompt_tokens, a.facts.prompt_tokens) / k_session_credit_divisor;
  a.prefixes[target] = {.page_tokens = known, .reusable_tokens = known, .from = policy::evidence::session};
}

model_router::ask model_router::make_ask(const api::generation_call& call, const auth::identity& caller,
                                         std::shared_ptr<const prompt_identity> prompt) {
  ask out{.facts = call.facts,
          .how = terms_.how,
          .prompt = std::move(prompt),
          .excluded = std::make_unique<bool[]>(targets_.size()),
          .prefixes = {},
          .session = shared_.sessions().find_key(caller, terms_.name, call.session),
          .tenant = caller.tenant,
          .weight = caller.weight,
          .priority = static_cast<int>(caller.terms->priority),
          .seed = turn_.load(std::memory_order_relaxed),
          .begun = steady_clock::now(),
          .streams = call.stream};
  out.facts.local_only = caller.terms->residency == auth::residency::local_only;
  out.facts.prompt_tokens = static_cast<std::int64_t>(out.prompt->keys.tokens);
  out.facts.prompt_is_estimate = out.prompt->keys.how != keyed_how::tokens;
  out.facts.output_tokens_expected =
      static_cast<std::int64_t>(output_tokens_mean_.load(std::memory_order_relaxed));
  if (!rules_.empty()) {
    std::vector<std::string_view> names;
    for (const auto& t : targets_) names.emplace_back(t.state->name());
    const policy::rule_subject subject{.model = terms_.name,
                                       .tenant = caller.tenant,
                                       .key = caller.name,
                                       .prompt_tokens = out.facts.prompt_tokens,
                                       .has_tools = call.has_tools,
                                       .has_images = call.facts.needs_image,
                                       .local_only = out.facts.local_only};
    policy::apply_rules(rules_, subject, names, {out.excluded.get(), targets_.size()}, out.how);
  }
  look_up(out);
  recall_session(out);
  return out;
}

policy::decision model_router::explain(const api::generation_call& call, const auth::identity& caller,
                                       const prompt_identity& prompt) {
  return decide(make_ask(call, caller, std::make_shared<const prompt_identity>(prompt)));
}

policy::decision model_router::decide(const ask& a) const {
  auto targets = views();
  for (std::size_t i = 0; i < targets.size(); ++i) targets[i].excluded = a.excluded[i];
  return policy::route(a.facts, targets, a.prefixes, a.how, terms_.overflow, a.seed);
}

attempt model_router::dispatch(const ask& a, policy::decision made) {
  const std::size_t picked = made.picked;
  const auto& to = targets_[picked];
  const auto& keys = a.prompt->keys;
  attempt out(*this, picked, a.prompt, std::move(made));
  const double work = policy::uncached_tokens(a.facts, a.prefixes[picked]);
  out.work_ = to.state->dispatched(work, now_s(), a.streams);
  if (a.session) shared_.sessions().remember(*a.session, {marks_[picked], a.facts.prompt_tokens});
  if (!to.state->has_cache()) return out;
  if (to.state->cache().salted && !a.prompt->cache_salt.empty()) {
    out.members_.push_back({"cache_salt", '"' + a.prompt->cache_salt + '"'});
  }
  if (!to.state->cache().hints) return out;
  const policy::hint_terms terms{.unit_tokens = static_cast<std::int64_t>(keys.unit_tokens)};
  // Without exact tokens there is nothing to say; a client's own hints do not pass either.
  const auto hints = keys.how == keyed_how::tokens
                         ? policy::hints_for(a.facts.prompt_tokens, a.prefixes[picked], terms)
                         : policy::checkpoint_hints{};
  std::string at;
  for (int i = 0; i < hints.count; ++i) {
    out.hint_units_.push_back(static_cast<std::uint32_t>(hints.at[i] / terms.unit_tokens));
    at += fmt::format("{}{}", i == 0 ? "" : ",", hints.at[i]);
  }
  out.members_.push_back({"weir_checkpoint_at", '[' + at + ']'});
  return out;
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
    asks.clear();
    choose_waiting(chosen);
    for (const auto& at : chosen) {
      const auto& w = *at;
      asks.push_back({.facts = w->request.facts,
                      .how = w->request.how,
                      .overflow = terms_.overflow,
                      .prefixes = w->request.prefixes,
                      .excluded = {w->request.excluded.get(), targets_.size()},
                      .waited_s = std::chrono::duration<double>(now - w->request.begun).count(),
                      .seed = w->request.seed,
                      .priority = w->request.priority,
                      .class_waited_s = fair_.class_waited_s(w->request.priority, now_s()),
                      .lead_tokens = fair_.lead_tokens(w->request.tenant)});
    }
    auto placed = policy::place_next(views(), asks, terms_.placement);
    if (!placed) return;
    const std::shared_ptr<waiter> w = *chosen[placed->request];
    waiting_.erase(chosen[placed->request]);
    waiting_count_.store(waiting_.size(), std::memory_order_relaxed);
    w->listed = false;
    if (placed->made.picked == policy::decision::k_none) {
      fair_.left(member_of(w->request));
      w->placed.emplace(std::unexpected(std::move(placed->made)));
    } else {
      const std::size_t target = placed->made.picked;
      fair_.served(member_of(w->request),
                   policy::uncached_tokens(w->request.facts, w->request.prefixes[target]), now_s());
      w->placed.emplace(dispatch(w->request, std::move(placed->made)));
      share_prefix(w->request, target);
    }
    // Under the lock: the coroutine leaves the list under it too, and with it its thread's io_context may
    // end.
    asio::post(w->executor, [w] {
      if (w->wake) w->wake->cancel();
    });
  }
}

task<result<model_router::placing>> model_router::place(const api::generation_call& call,
                                                        const auth::identity& caller,
                                                        std::shared_ptr<const prompt_identity> prompt,
                                                        steady_clock::time_point deadline) {
  const auto begun = steady_clock::now();
  ask request = make_ask(call, caller, prompt);
  request.seed = turn_.fetch_add(1, std::memory_order_relaxed);
  const auto decided = [this, begun, took_s = prompt->took_s] {
    const std::chrono::duration<double> since = steady_clock::now() - begun;
    shared_.counters().decision_s->Observe(took_s + since.count());
  };
  const bool waits =
      policy::may_wait(request.how.kind) && waiting_count_.load(std::memory_order_relaxed) < k_waiting_max;
  if (!waits) {
    auto made = decide(request);
    decided();
    if (made.picked == policy::decision::k_none) co_return placing(std::unexpected(std::move(made)));
    auto sent = dispatch(request, std::move(made));
    sent.tell_index();
    co_return placing(std::move(sent));
  }
  const io_executor executor = co_await asio::this_coro::executor;
  const auto w = std::make_shared<waiter>(std::move(request), executor);

  // Leaves the list however this coroutine ends.
  struct leave {
    model_router& router;
    waiter& w;
    ~leave() {
      w.wake.reset();
      std::optional<placing> unused;  // ended outside the lock, which its end takes
      const std::lock_guard lock(router.mutex_);
      if (w.placed) unused.emplace(std::move(*w.placed));
      w.placed.reset();
      if (!w.listed) return;
      router.waiting_.remove_if([&](const auto& other) { return other.get() == &w; });
      router.fair_.left(member_of(w.request));
      router.waiting_count_.store(router.waiting_.size(), std::memory_order_relaxed);
    }
  } const guard{*this, *w};
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(w);
    fair_.arrived(member_of(w->request), now_s());
    waiting_count_.store(waiting_.size(), std::memory_order_relaxed);
  }
  place_waiting();
  decided();
  const auto cancellation = co_await asio::this_coro::cancellation_state;
  for (bool counted = false;; counted = true) {
    std::optional<placing> found;
    {
      const std::lock_guard lock(mutex_);
      if (w->placed) found.emplace(std::move(*w->placed));
      w->placed.reset();
    }
    if (found) {
      if (*found) (*found)->tell_index();
      co_return std::move(*found);
    }
    if (!counted) shared_.counters().waited->Increment();
    if (cancellation.cancelled() != asio::cancellation_type::none) co_return fail(errc::client_gone, "");
    if (steady_clock::now() >= deadline) {
      co_return fail(errc::overloaded, "no replica got free in time; retry in a moment");
    }
    w->wake->expires_after(k_tick);
    const auto token = asio::as_tuple(use_task);
    co_await w->wake->async_wait(token);
    tick();
  }
}

}  // namespace weir::gateway::route
