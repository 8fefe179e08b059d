#include "gateway/route/model_router.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gateway/route/model_router_impl.hpp"
#include "policy/failover/pool.hpp"

namespace weir::gateway::route {

namespace {

using std::chrono::steady_clock;

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

}  // namespace

std::string chain_name(const std::string& model, const engine::text::tokenizer* tokenizer) {
  return tokenizer == nullptr ? model : fmt::format("{}#{:016x}", model, tokenizer->fingerprint());
}

model_router::model_router(model_terms terms, std::vector<routed_target> targets,
                           std::span<const policy::rule> rules, services& shared)
    : terms_(std::move(terms)),
      chain_model_(chain_name(terms_.name, terms_.tokenizer.get())),
      targets_(std::move(targets)),
      rules_(rules),
      shared_(shared) {
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    marks_.push_back(session_memory::target_mark(targets_[i].state->name()));
    engines_ = engines_ || is_engine(i);
    if (!targets_[i].state->has_cache()) continue;
    ids_.push_back(targets_[i].state->id());
    cached_.push_back(i);
    if (!targets_[i].state->cache().salted) all_shared_ = true;
  }
}

model_router::~model_router() = default;

// The embedded engine keeps a cache of its own, whether or not its target is looked up in the index.
bool model_router::is_engine(std::size_t target) const {
  return targets_[target].target->view().kind == policy::target_kind::engine;
}

std::vector<policy::target_view> model_router::views() const {
  std::vector<policy::target_view> out;
  out.reserve(targets_.size());
  const double now = now_s();
  bool any_unusable = false;
  for (const auto& t : targets_) {
    out.push_back(t.target->view());
    t.state->fill(out.back(), now);
    const auto now_is = t.health->look(now_ns());
    if (!now_is.usable) out.back().set_aside = policy::aside::failing;
    any_unusable = any_unusable || out.back().set_aside != policy::aside::no;
  }
  if (any_unusable) overrule(out);
  return out;
}

bool model_router::is_usable(std::size_t target) const {
  const auto& t = targets_[target];
  const auto view = t.target->view();
  const auto now_is = t.health->look(now_ns());
  return view.ready && view.set_aside == policy::aside::no && now_is.usable && !now_is.probe;
}

// A pool keeps some of its targets, however they fail. Hosted ones are a pool of their own: not every key may
// use them.
void model_router::overrule(std::vector<policy::target_view>& views) const {
  const auto at_ns = now_ns();
  const auto kept = std::make_unique<bool[]>(views.size());
  std::vector<policy::failover::pool_member> pool(views.size());
  for (const bool hosted : {false, true}) {
    for (std::size_t i = 0; i < views.size(); ++i) {
      const auto is = targets_[i].health->look(at_ns);
      const bool member = (views[i].kind == policy::target_kind::hosted) == hosted;
      const bool held = !is.usable && !is.ejected;
      const bool ejected = is.ejected || (is.usable && views[i].set_aside == policy::aside::failing);
      pool[i] = {.ready = member && views[i].ready && !held, .ejected = ejected, .from_ns = is.from_ns};
    }
    policy::failover::overrule_ejections(pool, {kept.get(), pool.size()});
    for (std::size_t i = 0; i < pool.size(); ++i) {
      if (kept[i]) views[i].set_aside = policy::aside::no;
    }
  }
}

std::int64_t model_router::ready_at_ns() const {
  std::int64_t first = policy::failover::k_never_ns;
  for (const auto& t : targets_) {
    const auto is = t.health->look(now_ns());
    if (!is.usable) first = std::min(first, is.from_ns);
  }
  return first == policy::failover::k_never_ns ? 0 : first;
}

// What this request has tried, and targets that shall not take all requests yet, while others can at once.
void model_router::set_aside(ask& a) const {
  const auto at_ns = now_ns();
  const bool again = a.before != nullptr && a.before->begun() > 0;
  a.set_aside.clear();
  bool any_aside = false;
  std::vector<policy::aside> aside(targets_.size(), policy::aside::no);
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    const auto is = targets_[i].health->look(at_ns);
    if (again && !a.before->may_use(i, targets_[i].target->view().context_tokens, at_ns)) {
      aside[i] = policy::aside::failing;
    } else if (!policy::failover::takes_part(is, again, a.seed, i)) {
      aside[i] = policy::aside::warming;
    }
    any_aside = any_aside || aside[i] != policy::aside::no;
  }
  if (!any_aside) return;
  const auto now_are = views();
  bool any_left = false;
  for (std::size_t i = 0; i < aside.size(); ++i) {
    const bool can = now_are[i].ready && !now_are[i].full && now_are[i].set_aside == policy::aside::no;
    any_left = any_left || (can && !a.excluded[i] && aside[i] == policy::aside::no);
  }
  if (!any_left) std::replace(aside.begin(), aside.end(), policy::aside::warming, policy::aside::no);
  a.set_aside = std::move(aside);
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
                                         std::shared_ptr<const prompt_identity> prompt,
                                         const policy::failover::attempts* before) {
  ask out{.facts = call.facts,
          .how = terms_.how,
          .prompt = std::move(prompt),
          .excluded = std::make_unique<bool[]>(targets_.size()),
          .before = before,
          .set_aside = {},
          .prefixes = {},
          .session = shared_.sessions().find_key(caller, terms_.name, call.session),
          .tenant = caller.tenant,
          .weight = caller.weight,
          .priority = static_cast<int>(caller.terms->priority),
          .seed = before == nullptr ? turn_.load(std::memory_order_relaxed)
                                    : turn_.fetch_add(1, std::memory_order_relaxed),
          .begun = steady_clock::now(),
          .streams = call.stream};
  out.facts.local_only = caller.terms->residency == auth::residency::local_only;
  out.facts.sequences = call.choices;
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
  out.work_tokens = static_cast<double>(out.facts.prompt_tokens);
  for (const auto& held : out.prefixes) {
    out.work_tokens = std::min(out.work_tokens, policy::uncached_tokens(out.facts, held));
  }
  return out;
}

policy::decision model_router::explain(const api::generation_call& call, const auth::identity& caller,
                                       const prompt_identity& prompt) {
  auto request = make_ask(call, caller, std::make_shared<const prompt_identity>(prompt), nullptr);
  set_aside(request);
  return decide(request);
}

policy::decision model_router::decide(const ask& a) const {
  auto targets = views();
  for (std::size_t i = 0; i < targets.size(); ++i) {
    targets[i].excluded = a.excluded[i];
    if (!a.set_aside.empty() && targets[i].set_aside == policy::aside::no) {
      targets[i].set_aside = a.set_aside[i];
    }
  }
  return policy::route(a.facts, targets, a.prefixes, a.how, terms_.overflow, a.seed);
}

attempt model_router::dispatch(const ask& a, policy::decision made) {
  const std::size_t picked = made.picked;
  const auto& to = targets_[picked];
  const auto& keys = a.prompt->keys;
  attempt out(*this, picked, a.prompt, std::move(made));
  const double work = policy::uncached_tokens(a.facts, a.prefixes[picked]);
  out.contract_ = a.how.contract;
  out.work_ = to.state->dispatched(work, now_s(), a.streams, policy::need_of(a.facts, a.prefixes[picked]),
                                   a.prefixes[picked].reusable_tokens > 0);
  for (std::size_t i = 0; i < out.made_.candidates.size(); ++i) {
    const auto why = out.made_.candidates[i].why;
    if (why != policy::verdict::at_capacity && policy::is_full(why)) targets_[i].state->turned_away(why);
  }
  if (a.session) shared_.sessions().remember(*a.session, {marks_[picked], a.facts.prompt_tokens});
  const bool engine = is_engine(picked);
  const bool shared = to.state->has_cache() && !to.state->cache().salted;  // as the operator declares
  if (engine && terms_.own_salts) {
    out.members_.push_back({"cache_salt", '"' + a.prompt->cache_salt + '"'});
    return out;
  }
  if (engine && shared) out.members_.push_back({"cache_salt", "\"\""});
  if ((engine || to.state->has_cache()) && !shared && !a.prompt->cache_salt.empty()) {
    out.members_.push_back({"cache_salt", '"' + a.prompt->cache_salt + '"'});
  }
  if (!to.state->has_cache()) return out;
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

}  // namespace weir::gateway::route
