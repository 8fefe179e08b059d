#include "gateway/upstream/answer_constraints.hpp"

#include <algorithm>
#include <utility>

#include "engine/structure/answer_constraint.hpp"
#include "gateway/upstream/offload.hpp"

namespace weir::gateway::upstream {

namespace {

// Each takes up to k_automaton_bytes_max and its grammar.
constexpr std::size_t k_known_max = 16;
constexpr std::size_t k_key_bytes_max = 1 << 20;  // larger ones are compiled each time

}  // namespace

answer_constraints::outcome answer_constraints::compile(const api::answer_form& form, bool thinking) const {
  const auto markup = tools_.chat->answers(thinking);
  auto rules = engine::structure::compile_answer(form.spec, &markup);
  if (!rules) return std::unexpected(api::to_error(form, rules.error()));
  return engine::structure::make_constraint(std::move(*rules), tools_.words);
}

std::shared_ptr<const engine::token_constraint> answer_constraints::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto at = std::find_if(known_.begin(), known_.end(), [&](const entry& e) { return e.key == key; });
  if (at == known_.end()) return nullptr;
  known_.splice(known_.begin(), known_, at);
  return at->constraint;
}

void answer_constraints::keep(std::string key,
                              const std::shared_ptr<const engine::token_constraint>& constraint) {
  if (key.size() > k_key_bytes_max) return;
  const std::lock_guard lock(mutex_);
  known_.push_front({std::move(key), constraint});
  if (known_.size() > k_known_max) known_.pop_back();
}

task<answer_constraints::outcome> answer_constraints::of(const std::optional<api::answer_form>& form,
                                                         bool thinking, asio::thread_pool& pool) {
  if (!form) co_return nullptr;
  if (!supported()) {
    const bool promised = form->spec.text != engine::structure::text_form::free;
    if (promised) co_return fail(errc::unsupported, "this model's answers cannot be bound to a form");
    co_return nullptr;
  }
  std::string key = (thinking ? "thinking " : "") + form->key();
  if (auto known = find(key)) co_return known;
  auto made = co_await offload(pool, [this, &form, thinking] { return compile(*form, thinking); });
  if (made) keep(std::move(key), *made);
  co_return made;
}

}  // namespace weir::gateway::upstream
