#include "engine/scheduler/scheduler.hpp"

#include <algorithm>
#include <cassert>
#include <span>
#include <utility>

namespace weir::engine::scheduler {

scheduler::scheduler(const limits& config)
    : limits_(config), pages_(config.page_count), slots_(config.slot_count) {
  assert(config.step_tokens_max >= config.slot_count);
}

std::int32_t scheduler::pages_needed(const sequence& seq) const noexcept {
  return (seq.positions_max() - 1) / limits_.page_tokens + 1;
}

void scheduler::add(std::unique_ptr<sequence> seq) {
  assert(pages_needed(*seq) <= limits_.page_count);
  waiting_.push_back(std::move(seq));
}

void scheduler::admit() {
  while (!waiting_.empty() && slots_.available() > 0) {
    sequence& next = *waiting_.front();
    const std::int32_t needed = pages_needed(next);
    if (needed > pages_.available()) return;
    next.pages.reserve(static_cast<std::size_t>(needed));
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
    next.slot = slots_.acquire();
    for (std::int32_t i = 0; i < needed; ++i) next.pages.push_back(pages_.acquire());
  }
}

void scheduler::plan_tokens(sequence& seq, std::int32_t count) {
  const auto next =
      std::span(seq.tokens).subspan(static_cast<std::size_t>(seq.computed), static_cast<std::size_t>(count));
  batch_.append(next, seq.computed, seq.slot, seq.pages);
  if (seq.pending() == count) batch_.logit_rows.push_back(batch_.row_count() - 1);
  planned_.push_back({&seq, count});
}

const runner::batch& scheduler::plan() {
  admit();
  planned_.clear();
  std::size_t stride = 0;
  for (const auto& seq : running_) stride = std::max(stride, seq->pages.size());
  batch_.reset(static_cast<std::int32_t>(stride));
  for (const auto& seq : running_) {
    if (seq->pending() == 1) plan_tokens(*seq, 1);
  }
  for (const auto& seq : running_) {
    const std::int32_t budget = limits_.step_tokens_max - batch_.row_count();
    if (budget <= 0) break;
    if (seq->pending() > 1) plan_tokens(*seq, std::min(budget, seq->pending()));
  }
  return batch_;
}

std::vector<sequence*> scheduler::complete() {
  std::vector<sequence*> ready;
  for (const planned& entry : planned_) {
    const std::int32_t prompt_left = std::max(entry.seq->prompt_count - entry.seq->computed, 0);
    prompt_tokens_ += static_cast<std::uint64_t>(std::min(prompt_left, entry.count));
    entry.seq->computed += entry.count;
    if (entry.seq->pending() == 0) ready.push_back(entry.seq);
  }
  planned_.clear();
  return ready;
}

std::unique_ptr<sequence> scheduler::remove(sequence_id id) {
  const auto has_id = [id](const std::unique_ptr<sequence>& seq) { return seq->id == id; };
  if (const auto it = std::find_if(waiting_.begin(), waiting_.end(), has_id); it != waiting_.end()) {
    std::unique_ptr<sequence> out = std::move(*it);
    waiting_.erase(it);
    return out;
  }
  const auto it = std::find_if(running_.begin(), running_.end(), has_id);
  if (it == running_.end()) return nullptr;
  std::unique_ptr<sequence> out = std::move(*it);
  running_.erase(it);
  std::erase_if(planned_, [&out](const planned& entry) { return entry.seq == out.get(); });
  for (const std::int32_t page : out->pages) pages_.release(page);
  out->pages.clear();
  slots_.release(std::exchange(out->slot, -1));
  return out;
}

std::vector<sequence_id> scheduler::running_ids() const {
  std::vector<sequence_id> ids;
  for (const auto& seq : running_) ids.push_back(seq->id);
  return ids;
}

std::vector<sequence_id> scheduler::waiting_ids() const {
  std::vector<sequence_id> ids;
  for (const auto& seq : waiting_) ids.push_back(seq->id);
  return ids;
}

}  // namespace weir::engine::scheduler
