// Which token sequences were seen, in units of a fixed number of tokens: one tree per scope, a node per unit.
// A node is found by the hash of its chain and then verified token by token, so a colliding prompt never
// passes for another one, and scopes share nothing.
//
// Nodes that hold nothing but their tokens stand in a list by age, of which the oldest go when there are too
// many: REQUIRES of the user to touch() a path from its end to its start, so that the oldest has no children.
// No clock. One thread (the worker's).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace weir::engine::cache {

inline constexpr std::int32_t k_none = -1;

class token_tree final {
 public:
  struct node {
    std::int32_t parent = k_none;  // k_none: a scope's root
    std::int32_t depth = 0;        // units from the root
    std::int32_t children = 0;
    std::uint64_t hash = 0;  // of scope and tokens up to here
    bool listed = false;     // holds nothing but its tokens
    std::int32_t older = k_none;
    std::int32_t newer = k_none;
  };

  // `seed` keeps outsiders from choosing tokens whose hashes collide.
  token_tree(std::int32_t unit_tokens, std::uint64_t seed);

  // k_none for a scope or a unit not seen.
  std::int32_t root(std::string_view scope) const;
  std::int32_t child(std::int32_t parent, std::span<const std::int32_t> unit) const;

  // The nodes of all whole units of `tokens`, from the first on, made where there are none. New ones are
  // listed.
  std::vector<std::int32_t> path(std::string_view scope, std::span<const std::int32_t> tokens);

  // As path(), but ends where nothing is known.
  std::vector<std::int32_t> known_path(std::string_view scope, std::span<const std::int32_t> tokens) const;

  // A listed node becomes the youngest.
  void touch(std::int32_t index);
  void list(std::int32_t index);  // as the youngest
  void unlist(std::int32_t index);
  // Removes the oldest listed nodes, and scopes without nodes, until at most `count` are listed.
  void trim(std::size_t count);

  const node& at(std::int32_t index) const noexcept { return nodes_[static_cast<std::size_t>(index)]; }
  std::span<const std::int32_t> tokens(std::int32_t index) const noexcept;
  const std::string& scope(std::int32_t root) const { return scopes_.at(root); }
  std::size_t size() const noexcept { return by_hash_.size(); }  // nodes besides roots
  std::size_t listed() const noexcept { return listed_; }
  // Indices are below this; those of removed nodes are used again.
  std::size_t index_count() const noexcept { return nodes_.size(); }

 private:
  std::int32_t make(std::int32_t parent, std::uint64_t hash);
  std::int32_t add(std::int32_t parent, std::span<const std::int32_t> unit);
  void remove(std::int32_t index);
  node& get(std::int32_t index) noexcept { return nodes_[static_cast<std::size_t>(index)]; }
  std::uint64_t chain(std::uint64_t hash, std::span<const std::int32_t> unit) const noexcept;

  std::int32_t unit_;
  std::uint64_t seed_;
  std::vector<node> nodes_;
  std::vector<std::int32_t> tokens_;  // [nodes, unit]
  std::vector<std::int32_t> free_;
  std::map<std::string, std::int32_t, std::less<>> roots_;
  std::unordered_map<std::int32_t, std::string> scopes_;  // of each root
  std::unordered_multimap<std::uint64_t, std::int32_t> by_hash_;
  std::int32_t oldest_ = k_none;
  std::int32_t youngest_ = k_none;
  std::size_t listed_ = 0;
};

}  // namespace weir::engine::cache
