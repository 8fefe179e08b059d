#include "engine/scheduler/scheduler.hpp"

#include <algorithm>
#include <cassert>
#include <span>
#include <utility>

namespace weir::engine::scheduler {

namespace {

// Tokens of a tenant's turn within a step: small, so that several short prompts fit beside a long one.
constexpr std::int64_t k_prefill_turn_tokens = 64;
// A preempted sequence waits for this part of its own size besides, lest it be preempted again at once.
constexpr std::int32_t k_return_margin_divisor = 4;

bool older(const std::unique_ptr<sequence>& a, const std::unique_ptr<sequence>& b) {
  return a->id < b->id;
}

}  // namespace

scheduler::scheduler(const limits& config)
    : limits_(config),
      memory_(config.memory),
      admission_(config.step_tokens_max),
      prefill_(k_prefill_turn_tokens) {
  assert(config.step_tokens_max >= config.sequences_max && config.chunk_align_tokens >= 1);
}

void scheduler::add(std::unique_ptr<sequence> seq) {
  assert(memory_.fits(seq->positions_max()));
  const auto [it, fresh] = tenant_ids_.try_emplace(seq->scope, next_tenant_);
  seq->tenant = it->second;
  if (fresh) {
    ++next_tenant_;
    admission_.add(seq->tenant);
    prefill_.add(seq->tenant);
  }
  tenant& owner = tenants_[seq->tenant];
  owner.scope = seq->scope;
  ++owner.live;
  wait(std::move(seq));
}

// In order of age, for one that comes back after a preemption.
void scheduler::wait(std::unique_ptr<sequence> seq) {
  auto& queue = tenants_.at(seq->tenant).waiting;
  queue.insert(std::ranges::upper_bound(queue, seq, older), std::move(seq));
  ++waiting_;
}

void scheduler::leave(std::int32_t id) {
  tenant& owner = tenants_.at(id);
  if (--owner.live > 0) return;
  admission_.remove(id);
  prefill_.remove(id);
  tenant_ids_.erase(owner.scope);
  tenants_.erase(id);
}

void scheduler::grow() {
  for (std::size_t i = 0; i < running_.size();) {
    if (memory_.grow(*running_[i])) {
      ++i;
    } else {
      preempt_youngest();
    }
  }
}

void scheduler::preempt_youngest() {
  std::unique_ptr<sequence> seq = std::move(running_.back());
  running_.pop_back();
  memory_.release(*seq);
  seq->computed_most = std::max(seq->computed_most, std::exchange(seq->computed, 0));
  ++counters_.preemptions;
  wait(std::move(seq));
}

void scheduler::admit() {
  std::vector<std::int32_t> held;  // tenants whose first one waits for what another is computing
  const auto wants = [this, &held](std::int32_t id) {
    return !tenants_.at(id).waiting.empty() && std::ranges::find(held, id) == held.end();
  };
  while (running_count() < limits_.sequences_max) {
    const auto turn = admission_.next(wants);
    if (turn.tenant < 0) return;
    auto& queue = tenants_.at(turn.tenant).waiting;
    sequence& seq = *queue.front();
    if (std::ranges::any_of(running_, [&](const auto& other) { return memory_.await_shared(seq, *other); })) {
      held.push_back(turn.tenant);
      continue;
    }
    std::int32_t spare = 0;
    if (!running_.empty()) {
      spare = running_count() + 1;
      if (seq.computed_most > 0) {
        spare += seq.token_count() / limits_.memory.page_tokens / k_return_margin_divisor;
      }
    }
    if (!memory_.admit(seq, spare)) {
      assert(!running_.empty());
      return;
    }
    admission_.charge(turn.tenant, seq.pending());
    const auto at = std::ranges::upper_bound(running_, queue.front(), older);
    running_.insert(at, std::move(queue.front()));
    queue.pop_front();
    --waiting_;
  }
}

void scheduler::plan_tokens(sequence& seq, std::int32_t count) {
  const auto next =
      std::span(seq.tokens).subspan(static_cast<std::size_t>(seq.computed), static_cast<std::size_t>(count));
  places_.clear();
  for (const std::int32_t page : seq.pages) places_.push_back(memory_.pool().place(page));
  batch_.append(next, seq.computed, seq.slot, places_);
  if (seq.pending() == count) batch_.logit_rows.push_back(batch_.row_count() - 1);
  planned_.push_back({&seq, count});
}

// Turns go to the tenant's oldest and to the one with the least left to do: a short prompt does not wait for
// long ones before it, which take at most twice as long for that.
std::vector<scheduler::share>::iterator scheduler::pick(std::vector<share>& shares, std::int32_t of) {
  shortest_first_ = !shortest_first_;
  auto best = shares.end();
  for (auto it = shares.begin(); it != shares.end(); ++it) {
    if (it->seq->tenant != of || it->given == it->wanted) continue;
    const auto left = [](const share& s) { return s.seq->pending() - s.given; };
    if (best == shares.end() || (shortest_first_ && left(*it) < left(*best))) best = it;
    if (!shortest_first_) break;
  }
  return best;
}

void scheduler::plan_prompts(std::int32_t budget) {
  std::vector<share> shares;
  for (const auto& seq : running_) {
    if (seq->pending() == 1) continue;
    const std::int32_t to_cut = memory_.next_cut(*seq) - seq->computed;
    shares.push_back({seq.get(), std::min(seq->pending(), to_cut)});
    ++tenants_.at(seq->tenant).prefilling;
  }
  const auto wants = [this](std::int32_t id) { return tenants_.at(id).prefilling > 0; };
  while (budget > 0) {
    const auto turn = prefill_.next(wants);
    if (turn.tenant < 0) break;
    share& next = *pick(shares, turn.tenant);
    const auto count =
        static_cast<std::int32_t>(std::min<std::int64_t>({turn.credit, budget, next.wanted - next.given}));
    next.given += count;
    budget -= count;
    prefill_.charge(turn.tenant, count);
    if (next.given == next.wanted) --tenants_.at(turn.tenant).prefilling;
  }
  for (const share& s : shares) {
    std::int32_t count = s.given;
    if (s.given < s.wanted) {
      --tenants_.at(s.seq->tenant).prefilling;
      const std::int32_t end = s.seq->computed + s.given;
      const std::int32_t aligned = end - end % limits_.chunk_align_tokens;
      if (aligned > s.seq->computed) count = aligned - s.seq->computed;
    }
    if (count > 0) plan_tokens(*s.seq, count);
  }
}

const runner::batch& scheduler::plan(std::int32_t prompt_tokens_max) {
  planned_.clear();
  grow();
  admit();
  std::size_t stride = 0;
  for (const auto& seq : running_) stride = std::max(stride, seq->pages.size());
  batch_.reset(static_cast<std::int32_t>(stride));
  for (const auto& seq : running_) {
    if (seq->pending() == 1) plan_tokens(*seq, 1);
  }
  decoding_ = batch_.row_count();
  const std::int32_t budget = limits_.step_tokens_max - decoding_;
  plan_prompts(decoding_ > 0 ? std::min(budget, prompt_tokens_max) : budget);
  return batch_;
}

std::vector<sequence*> scheduler::complete() {
  std::vector<sequence*> ready;
  for (const planned& entry : planned_) {
    sequence& seq = *entry.seq;
    const std::int32_t end = seq.computed + entry.count;
    const std::int32_t first_new = std::max(seq.computed, seq.computed_most);
    counters_.prompt_tokens +=
        static_cast<std::uint64_t>(std::max(std::min(end, seq.prompt_count) - first_new, 0));
    counters_.recomputed_tokens +=
        static_cast<std::uint64_t>(std::max(std::min(end, seq.computed_most) - seq.computed, 0));
    seq.computed = end;
    memory_.keep(seq);
    if (seq.pending() == 0) ready.push_back(&seq);
  }
  planned_.clear();
  return ready;
}

std::unique_ptr<sequence> scheduler::remove(sequence_id id) {
  const auto has_id = [id](const std::unique_ptr<sequence>& seq) { return seq->id == id; };
  std::unique_ptr<sequence> out;
  if (const auto it = std::ranges::find_if(running_, has_id); it != running_.end()) {
    out = std::move(*it);
    running_.erase(it);
    std::erase_if(planned_, [&out](const planned& entry) { return entry.seq == out.get(); });
    memory_.release(*out);
  }
  for (auto it = tenants_.begin(); out == nullptr && it != tenants_.end(); ++it) {
    auto& queue = it->second.waiting;
    const auto found = std::ranges::find_if(queue, has_id);
    if (found == queue.end()) continue;
    out = std::move(*found);
    queue.erase(found);
    --waiting_;
  }
  if (out != nullptr) leave(out->tenant);
  return out;
}

std::vector<sequence_id> scheduler::running_ids() const {
  std::vector<sequence_id> ids;
  for (const auto& seq : running_) ids.push_back(seq->id);
  return ids;
}

std::vector<sequence_id> scheduler::waiting_ids() const {
  std::vector<sequence_id> ids;
  for (const auto& [id, owner] : tenants_) {
    for (const auto& seq : owner.waiting) ids.push_back(seq->id);
  }
  return ids;
}

}  // namespace weir::engine::scheduler
