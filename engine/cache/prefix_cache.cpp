#include "engine/cache/prefix_cache.hpp"

#include <algorithm>
#include <cassert>
#include <string>

namespace weir::engine::cache {

using kv::page_owner;

prefix_cache::prefix_cache(const cache_config& config, kv::memory_pool& pool)
    : config_(config), pool_(pool), tree_(config.unit_tokens, config.hash_seed) {}

cache_match prefix_cache::match(std::string_view scope, std::span<const std::int32_t> tokens,
                                std::int32_t limit) const {
  cache_match out;
  const auto cut = std::min(tokens.size(), static_cast<std::size_t>(std::max(limit, 0)));
  std::vector<std::int32_t> path = tree_.known_path(scope, tokens.first(cut));
  out.known = static_cast<std::int32_t>(path.size()) * config_.unit_tokens;
  while (!path.empty() && held(path.back()).state < 0) path.pop_back();
  if (path.empty()) return out;
  out.node = path.back();
  out.state = held(out.node).state;
  out.reusable = end_of(out.node);
  // A page is taken from the last unit that touches it: earlier ones may hold an older copy of its first
  // rows.
  const std::int32_t page_count = (out.reusable - 1) / config_.page_tokens + 1;
  for (std::int32_t page = 0; page < page_count; ++page) {
    const std::int32_t last = std::min((page + 1) * config_.page_tokens, out.reusable) - 1;
    const std::int32_t unit = last / config_.unit_tokens;
    const std::int32_t first_page = unit * config_.unit_tokens / config_.page_tokens;
    const holding& h = held(path[static_cast<std::size_t>(unit)]);
    out.pages.push_back(h.pages[static_cast<std::size_t>(page - first_page)]);
  }
  return out;
}

void prefix_cache::use(const cache_match& match) {
  if (match.node == k_none) return;
  holding& h = held(match.node);
  h.frequency += 1;
  h.base = age_;
  set_value(match.node);
  counters_.hit_tokens[static_cast<std::size_t>(h.kind)] += static_cast<std::uint64_t>(match.reusable);
}

void prefix_cache::remember(std::string_view scope, std::span<const std::int32_t> tokens) {
  touch(tree_.path(scope, tokens));
  trim();
}

bool prefix_cache::wants(std::string_view scope, std::span<const std::int32_t> tokens) const {
  const auto units = tokens.size() / static_cast<std::size_t>(config_.unit_tokens);
  const std::vector<std::int32_t> path = tree_.known_path(scope, tokens);
  return path.size() < units || held(path.back()).state < 0;
}

bool prefix_cache::worth_evicting_for(std::string_view scope, std::span<const std::int32_t> tokens) const {
  if (order_.empty()) return false;
  std::vector<std::int32_t> path = tree_.known_path(scope, tokens);
  while (!path.empty() && held(path.back()).state < 0) path.pop_back();
  const std::int32_t before = path.empty() ? 0 : end_of(path.back());
  const double saved = static_cast<double>(static_cast<std::int32_t>(tokens.size()) - before);
  const double size = pool_.slab_pages() + saved / config_.page_tokens;
  return age_ + saved / size > order_.begin()->first;
}

void prefix_cache::store(std::string_view scope, std::span<const std::int32_t> tokens,
                         std::span<const std::int32_t> pages, std::int32_t state, checkpoint_kind kind) {
  assert(!tokens.empty() && tokens.size() % static_cast<std::size_t>(config_.unit_tokens) == 0);
  const std::vector<std::int32_t> path = tree_.path(scope, tokens);
  touch(path);
  if (held_.size() < tree_.index_count()) held_.resize(tree_.index_count());
  for (const std::int32_t node : path) give_pages(node, pages);
  const std::int32_t node = path.back();
  holding& h = held(node);
  assert(h.state < 0);
  h.state = state;
  h.kind = kind;
  h.frequency = 1;
  h.base = age_;
  h.value = h.base + worth(node, h.frequency, h.paged_children > 0);
  order_.emplace(h.value, node);
  ++counters_.stored;
  note(cache_event::kind::stored, cache_event::group::kda_checkpoint, node);
  trim();
}

// The unit's own part of a chain's pages. The unit before it has its pages already.
void prefix_cache::give_pages(std::int32_t node, std::span<const std::int32_t> pages) {
  holding& h = held(node);
  if (!h.pages.empty()) return;
  const std::int32_t end = end_of(node);
  for (std::int32_t page = (end - config_.unit_tokens) / config_.page_tokens;
       page <= (end - 1) / config_.page_tokens; ++page) {
    h.pages.push_back(pages[static_cast<std::size_t>(page)]);
    pool_.retain_page(h.pages.back(), page_owner::cache);
  }
  tree_.unlist(node);
  const std::int32_t parent = tree_.at(node).parent;
  ++held(parent).paged_children;
  note(cache_event::kind::stored, cache_event::group::mla_pages, node);
}

// Recompute that a checkpoint saves over the one before it, times frequency, per place that it takes.
double prefix_cache::worth(std::int32_t node, double frequency, bool paged_below) const {
  std::int32_t before = tree_.at(node).parent;
  bool alone = !paged_below;
  std::int32_t own_units = alone ? 1 : 0;
  while (tree_.at(before).parent != k_none && held(before).state < 0) {
    alone = alone && held(before).paged_children == 1;
    own_units += alone ? 1 : 0;
    before = tree_.at(before).parent;
  }
  const double saved = end_of(node) - end_of(before);
  const double pages = static_cast<double>(own_units) * config_.unit_tokens / config_.page_tokens;
  return frequency * saved / (pool_.slab_pages() + pages);
}

void prefix_cache::set_value(std::int32_t node) {
  holding& h = held(node);
  order_.erase({h.value, node});
  h.value = h.base + worth(node, h.frequency, h.paged_children > 0);
  order_.emplace(h.value, node);
}

bool prefix_cache::evict() {
  if (order_.empty()) return false;
  // Losing the checkpoint before it makes one worth more; that is found out here, when its turn comes.
  std::int32_t node = k_none;
  do {
    node = order_.begin()->second;
    set_value(node);
  } while (order_.begin()->second != node);
  age_ = std::max(age_, held(node).value);
  ++counters_.evicted;
  drop(node);
  trim();
  return true;
}

void prefix_cache::drop(std::int32_t node) {
  order_.erase({held(node).value, node});
  pool_.release_state(std::exchange(held(node).state, -1));
  note(cache_event::kind::removed, cache_event::group::kda_checkpoint, node);
  while (tree_.at(node).parent != k_none && held(node).state < 0 && held(node).paged_children == 0) {
    for (const std::int32_t page : held(node).pages) pool_.release_page(page, page_owner::cache);
    held(node) = {};
    tree_.list(node);
    note(cache_event::kind::removed, cache_event::group::mla_pages, node);
    node = tree_.at(node).parent;
    --held(node).paged_children;
  }
}

void prefix_cache::touch(const std::vector<std::int32_t>& path) {
  if (held_.size() < tree_.index_count()) held_.resize(tree_.index_count());
  for (auto it = path.rbegin(); it != path.rend(); ++it) tree_.touch(*it);
}

void prefix_cache::trim() {
  tree_.trim(static_cast<std::size_t>(config_.remembered_tokens_max / config_.unit_tokens));
}

std::int64_t prefix_cache::evictable_pages() const noexcept {
  return static_cast<std::int64_t>(order_.size()) * pool_.slab_pages() + pool_.cached_pages();
}

void prefix_cache::note(cache_event::kind what, cache_event::group group, std::int32_t node) {
  if (!config_.events) return;
  cache_event event{.what = what, .of = group, .hash = tree_.at(node).hash, .position = end_of(node)};
  std::int32_t at = tree_.at(node).parent;
  event.parent_hash = tree_.at(at).hash;
  if (what == cache_event::kind::stored) {
    while (tree_.at(at).parent != k_none) at = tree_.at(at).parent;
    event.scope = tree_.scope(at);
    event.tokens.assign(tree_.tokens(node).begin(), tree_.tokens(node).end());
  }
  events_.push_back(std::move(event));
}

}  // namespace weir::engine::cache
