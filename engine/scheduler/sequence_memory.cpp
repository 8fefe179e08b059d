#include "engine/scheduler/sequence_memory.hpp"

#include <algorithm>
#include <cassert>
#include <limits>
#include <span>

namespace weir::engine::scheduler {

using cache::cache_match;
using cache::checkpoint_kind;
using kv::memory_op;
using kv::page_owner;

namespace {

// Waiting for another to compute a shared prefix is for those that are spared at least this part of their
// work.
constexpr std::int32_t k_wait_gain_divisor = 4;

}  // namespace

sequence_memory::sequence_memory(const memory_config& config)
    : config_(config),
      pool_(config.pool),
      cache_({.unit_tokens = config.unit_tokens,
              .page_tokens = config.page_tokens,
              .remembered_tokens_max = config.remembered_tokens_max,
              .hash_seed = config.hash_seed,
              .events = config.events},
             pool_) {
  assert(config.spacing_tokens % config.unit_tokens == 0);
}

bool sequence_memory::fits(std::int32_t positions) const noexcept {
  return pool_.slab_pages() + static_cast<std::int64_t>(pages_of(positions)) <= pool_.total_pages();
}

bool sequence_memory::admit(sequence& seq, std::int64_t spare_pages) {
  cache_match match;
  if (config_.cache) match = cache_.match(seq.scope, seq.tokens, seq.token_count() - 1);
  bool admitted = admit_with(seq, match, spare_pages);
  if (!admitted && match.reusable > 0) {
    // Starting from the cache takes a page more, to copy from. Where that is the one too many, do without.
    match.reusable = 0;
    match.node = cache::k_none;
    match.pages.clear();
    admitted = admit_with(seq, match, spare_pages);
  }
  if (!admitted) return false;
  if (seq.cached >= 0) return true;
  seq.cached = std::min(seq.computed, seq.prompt_count);
  make_cuts(seq, match);
  if (config_.cache) {
    cache_.remember(seq.scope, std::span(seq.tokens).first(static_cast<std::size_t>(seq.prompt_count)));
  }
  return true;
}

bool sequence_memory::admit_with(sequence& seq, const cache_match& match, std::int64_t spare_pages) {
  for (const std::int32_t page : match.pages) pool_.retain_page(page, page_owner::sequence);
  const std::int32_t shared = match.reusable / config_.page_tokens;  // pages that the boundary fills
  const std::int32_t needed = pages_of(seq.token_count()) - shared;
  const std::int64_t obtainable = pool_.free_pages() + (config_.cache ? cache_.evictable_pages() : 0);
  if (pool_.slab_pages() + needed + spare_pages > obtainable) {
    for (const std::int32_t page : match.pages) pool_.release_page(page, page_owner::sequence);
    return false;
  }
  cache_.use(match);
  auto slab = take_state();
  while (!slab) {
    const bool evicted = cache_.evict();
    assert(evicted);
    static_cast<void>(evicted);
    slab = take_state();
  }
  seq.slot = *slab;
  // At once: taking the slab may have evicted the checkpoint, of which this was then the slab, but what is
  // taken next may be written.
  if (match.reusable > 0) ops_.push_back({memory_op::kind::copy_state, match.state, seq.slot});
  seq.pages.assign(match.pages.begin(), match.pages.begin() + shared);
  for (std::int32_t i = 0; i < needed; ++i) seq.pages.push_back(must_take_page());
  if (match.reusable % config_.page_tokens != 0) {
    const std::int32_t source = match.pages.back();
    ops_.push_back({memory_op::kind::copy_page, pool_.place(source),
                    pool_.place(seq.pages[static_cast<std::size_t>(shared)])});
    pool_.release_page(source, page_owner::sequence);
  }
  seq.computed = match.reusable;
  return true;
}

void sequence_memory::make_cuts(sequence& seq, const cache_match& match) const {
  if (!config_.cache) return;
  const std::int32_t unit = config_.unit_tokens;
  const auto add = [&](std::int32_t position, checkpoint_kind kind) {
    const std::int32_t boundary = position / unit * unit;
    if (boundary > 0) seq.cuts.push_back({boundary, kind});
  };
  if (match.known > match.reusable) add(match.known, checkpoint_kind::junction);
  for (const std::int32_t hint : seq.hints) {
    if (hint > 0 && hint <= seq.prompt_count) add(hint, checkpoint_kind::hint);
  }
  add(seq.prompt_count, checkpoint_kind::prompt_end);
  std::ranges::stable_sort(seq.cuts, {}, &cut::position);
  const auto repeated = std::ranges::unique(seq.cuts, {}, &cut::position);
  seq.cuts.erase(repeated.begin(), repeated.end());
}

bool sequence_memory::await_shared(const sequence& next, sequence& running) const {
  if (!config_.cache || running.computed >= running.prompt_count || running.scope != next.scope) return false;
  const auto ours = std::span(next.tokens).first(next.tokens.size() - 1);
  const auto theirs = std::span(running.tokens).first(static_cast<std::size_t>(running.prompt_count));
  const auto shared = static_cast<std::int32_t>(std::ranges::mismatch(ours, theirs).in1 - ours.begin());
  const std::int32_t boundary = shared / config_.unit_tokens * config_.unit_tokens;
  if (boundary <= running.computed) return false;
  const std::int32_t have = cache_.match(next.scope, next.tokens, next.token_count() - 1).reusable;
  if (have > running.computed) return false;
  if ((boundary - have) * k_wait_gain_divisor < next.token_count() - have) return false;
  const auto at = std::ranges::lower_bound(running.cuts, boundary, {}, &cut::position);
  if (at == running.cuts.end() || at->position != boundary) {
    running.cuts.insert(at, {boundary, checkpoint_kind::junction});
  }
  return true;
}

bool sequence_memory::grow(sequence& seq) {
  const auto needed = static_cast<std::size_t>(pages_of(seq.token_count()));
  while (seq.pages.size() < needed) {
    const auto page = pool_.acquire_page();
    if (page) {
      seq.pages.push_back(*page);
    } else if (!cache_.evict()) {
      return false;
    }
  }
  return true;
}

const cut* sequence_memory::cut_at(const sequence& seq, std::int32_t position) const noexcept {
  const auto it = std::ranges::lower_bound(seq.cuts, position, {}, &cut::position);
  return it != seq.cuts.end() && it->position == position ? &*it : nullptr;
}

std::int32_t sequence_memory::next_cut(const sequence& seq) const noexcept {
  if (!config_.cache) return std::numeric_limits<std::int32_t>::max();
  const auto it = std::ranges::upper_bound(seq.cuts, seq.computed, {}, &cut::position);
  std::int32_t next = it == seq.cuts.end() ? std::numeric_limits<std::int32_t>::max() : it->position;
  if (config_.spacing_tokens > 0) {
    next = std::min(next, (seq.computed / config_.spacing_tokens + 1) * config_.spacing_tokens);
  }
  return next;
}

void sequence_memory::keep(const sequence& seq) {
  if (!config_.cache) return;
  const cut* planned = cut_at(seq, seq.computed);
  const bool spaced = config_.spacing_tokens > 0 && seq.computed % config_.spacing_tokens == 0;
  if (planned == nullptr && !spaced) return;
  const auto prefix = std::span(seq.tokens).first(static_cast<std::size_t>(seq.computed));
  if (!cache_.wants(seq.scope, prefix)) return;
  auto slab = take_state();
  while (!slab && cache_.worth_evicting_for(seq.scope, prefix)) {
    cache_.evict();
    slab = take_state();
  }
  if (!slab) return;
  ops_.push_back({memory_op::kind::copy_state, seq.slot, *slab});
  const auto pages = std::span(seq.pages).first(static_cast<std::size_t>(pages_of(seq.computed)));
  cache_.store(seq.scope, prefix, pages, *slab, planned ? planned->kind : checkpoint_kind::interval);
}

void sequence_memory::release(sequence& seq) {
  for (const std::int32_t page : seq.pages) pool_.release_page(page, page_owner::sequence);
  seq.pages.clear();
  pool_.release_state(std::exchange(seq.slot, -1));
}

std::optional<std::int32_t> sequence_memory::take_state() {
  auto slab = pool_.acquire_state();
  if (!slab && pool_.empty_slab(ops_)) slab = pool_.acquire_state();
  return slab;
}

std::int32_t sequence_memory::must_take_page() {
  auto page = pool_.acquire_page();
  while (!page) {
    const bool evicted = cache_.evict();
    assert(evicted);
    static_cast<void>(evicted);
    page = pool_.acquire_page();
  }
  return *page;
}

}  // namespace weir::engine::scheduler
