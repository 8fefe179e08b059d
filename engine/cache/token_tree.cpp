#include "engine/cache/token_tree.hpp"

#include <algorithm>
#include <cassert>

#include "engine/splitmix.hpp"

namespace weir::engine::cache {

token_tree::token_tree(std::int32_t unit_tokens, std::uint64_t seed) : unit_(unit_tokens), seed_(seed) {
  assert(unit_tokens >= 1);
}

std::uint64_t token_tree::chain(std::uint64_t hash, std::span<const std::int32_t> unit) const noexcept {
  for (const std::int32_t token : unit) {
    hash = mix_all_bits(hash + seed_ + k_splitmix_step * (static_cast<std::uint64_t>(token) + 1));
  }
  return hash;
}

std::int32_t token_tree::root(std::string_view scope) const {
  const auto it = roots_.find(scope);
  return it == roots_.end() ? k_none : it->second;
}

std::span<const std::int32_t> token_tree::tokens(std::int32_t index) const noexcept {
  return std::span(tokens_).subspan(static_cast<std::size_t>(index) * static_cast<std::size_t>(unit_),
                                    static_cast<std::size_t>(unit_));
}

std::int32_t token_tree::child(std::int32_t parent, std::span<const std::int32_t> unit) const {
  const auto [begin, end] = by_hash_.equal_range(chain(at(parent).hash, unit));
  for (auto it = begin; it != end; ++it) {
    if (at(it->second).parent == parent && std::ranges::equal(tokens(it->second), unit)) return it->second;
  }
  return k_none;
}

std::int32_t token_tree::make(std::int32_t parent, std::uint64_t hash) {
  std::int32_t index = static_cast<std::int32_t>(nodes_.size());
  if (free_.empty()) {
    nodes_.emplace_back();
    tokens_.resize(tokens_.size() + static_cast<std::size_t>(unit_));
  } else {
    index = free_.back();
    free_.pop_back();
  }
  get(index) = {};
  get(index).parent = parent;
  get(index).hash = hash;
  return index;
}

std::int32_t token_tree::add(std::int32_t parent, std::span<const std::int32_t> unit) {
  const std::int32_t index = make(parent, chain(at(parent).hash, unit));
  get(index).depth = at(parent).depth + 1;
  ++get(parent).children;
  std::ranges::copy(unit, tokens_.begin() + static_cast<std::ptrdiff_t>(index) * unit_);
  by_hash_.emplace(at(index).hash, index);
  list(index);
  return index;
}

std::vector<std::int32_t> token_tree::path(std::string_view scope, std::span<const std::int32_t> tokens) {
  std::vector<std::int32_t> out = known_path(scope, tokens);
  const auto unit = static_cast<std::size_t>(unit_);
  const std::size_t units = tokens.size() / unit;
  if (out.size() == units) return out;
  std::int32_t last = out.empty() ? root(scope) : out.back();
  if (last == k_none) {
    std::uint64_t hash = mix_all_bits(seed_);
    for (const char c : scope) hash = mix_all_bits(hash + static_cast<unsigned char>(c) + 1);
    last = make(k_none, hash);
    roots_.emplace(scope, last);
    scopes_.emplace(last, scope);
  }
  while (out.size() < units) {
    last = add(last, tokens.subspan(out.size() * unit, unit));
    out.push_back(last);
  }
  return out;
}

std::vector<std::int32_t> token_tree::known_path(std::string_view scope,
                                                 std::span<const std::int32_t> tokens) const {
  std::vector<std::int32_t> out;
  std::int32_t last = root(scope);
  const auto unit = static_cast<std::size_t>(unit_);
  while (last != k_none && (out.size() + 1) * unit <= tokens.size()) {
    last = child(last, tokens.subspan(out.size() * unit, unit));
    if (last != k_none) out.push_back(last);
  }
  return out;
}

void token_tree::touch(std::int32_t index) {
  if (!at(index).listed || youngest_ == index) return;
  unlist(index);
  list(index);
}

void token_tree::list(std::int32_t index) {
  node& n = get(index);
  assert(!n.listed);
  n.listed = true;
  n.older = youngest_;
  n.newer = k_none;
  (youngest_ == k_none ? oldest_ : get(youngest_).newer) = index;
  youngest_ = index;
  ++listed_;
}

void token_tree::unlist(std::int32_t index) {
  node& n = get(index);
  assert(n.listed);
  n.listed = false;
  (n.older == k_none ? oldest_ : get(n.older).newer) = n.newer;
  (n.newer == k_none ? youngest_ : get(n.newer).older) = n.older;
  --listed_;
}

void token_tree::trim(std::size_t count) {
  while (listed_ > count) remove(oldest_);
}

void token_tree::remove(std::int32_t index) {
  assert(at(index).children == 0);
  const auto [begin, end] = by_hash_.equal_range(at(index).hash);
  by_hash_.erase(std::find_if(begin, end, [index](const auto& entry) { return entry.second == index; }));
  unlist(index);
  const std::int32_t parent = at(index).parent;
  free_.push_back(index);
  if (--get(parent).children > 0 || at(parent).parent != k_none) return;
  roots_.erase(scope(parent));
  scopes_.erase(parent);
  free_.push_back(parent);
}

}  // namespace weir::engine::cache
