#include "policy/fair_share.hpp"

#include <algorithm>
#include <limits>

namespace weir::policy {

namespace {

std::size_t index_of(int priority) noexcept {
  return static_cast<std::size_t>(std::clamp(priority, 0, k_classes - 1));
}

}  // namespace

void fair_share::find_least() {
  least_ = std::numeric_limits<double>::infinity();
  for (const auto& [name, s] : shares_) {
    if (s.waiting > 0) least_ = std::min(least_, s.virtual_tokens);
  }
}

void fair_share::arrived(const member& who, double now_s) {
  auto found = shares_.find(who.tenant);
  if (found == shares_.end()) found = shares_.emplace(std::string(who.tenant), share{}).first;
  auto& s = found->second;
  if (s.waiting == 0 && waiting_ > 0) s.virtual_tokens = std::max(s.virtual_tokens, least_);
  s.weight = std::max<std::int64_t>(1, who.weight);
  if (s.waiting++ == 0) least_ = waiting_ == 0 ? s.virtual_tokens : std::min(least_, s.virtual_tokens);
  ++waiting_;
  auto& t = classes_[index_of(who.priority)];
  if (t.waiting++ == 0) t.since_s = now_s;
}

void fair_share::served(const member& who, double work_tokens, double now_s) {
  const auto found = shares_.find(who.tenant);
  if (found == shares_.end() || found->second.waiting == 0) return;
  auto& s = found->second;
  s.virtual_tokens += std::max(0.0, work_tokens) / static_cast<double>(s.weight);
  classes_[index_of(who.priority)].since_s = now_s;
  leave(who);
}

void fair_share::left(const member& who) {
  const auto found = shares_.find(who.tenant);
  if (found != shares_.end() && found->second.waiting > 0) leave(who);
}

void fair_share::leave(const member& who) {
  auto& t = classes_[index_of(who.priority)];
  if (t.waiting > 0) --t.waiting;
  auto& s = shares_.find(who.tenant)->second;
  --s.waiting;
  if (--waiting_ == 0) return shares_.clear();
  find_least();
  if (s.waiting > 0) return;
  std::erase_if(shares_, [this](const auto& entry) {
    return entry.second.waiting == 0 && entry.second.virtual_tokens <= least_;
  });
}

double fair_share::class_waited_s(int priority, double now_s) const {
  const auto& t = classes_[index_of(priority)];
  return t.waiting > 0 ? std::max(0.0, now_s - t.since_s) : 0;
}

double fair_share::lead_tokens(std::string_view tenant) const {
  const auto found = shares_.find(tenant);
  if (found == shares_.end() || found->second.waiting == 0) return 0;
  return found->second.virtual_tokens - least_;
}

}  // namespace weir::policy
