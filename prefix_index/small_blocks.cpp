// Blocks that are a part of a unit: a unit is present when all its blocks are. Every block is a node under
// its parent; the tokens of a unit's blocks but the last are kept, since several units may begin with them. A
// node without copies stays while it has children, so that they keep their place, and leaves with the last of
// them.
#include <algorithm>
#include <cassert>
#include <vector>

#include "prefix_index/engine_blocks.hpp"
#include "prefix_index/hash_slots.hpp"

namespace weir::prefix_index {

namespace {

constexpr std::uint32_t k_children_max = 4096;  // a change of a node looks at all units that begin with it
constexpr std::size_t k_media = 3;

struct node {
  engine_hash hash = 0;
  block_key base;  // the key of the unit before the one this block is in
  block_key key;   // of its unit, if it is the last block of one
  std::uint32_t parent = 0;
  std::uint32_t first_child = 0;
  std::uint32_t next = 0;  // siblings; of a freed node the next freed one
  std::uint32_t previous = 0;
  std::uint32_t children = 0;
  std::uint32_t unit = 0;      // the index of the unit it is in
  std::uint32_t position = 0;  // which block of the unit
  record_id listed = 0;        // its unit in the index, if the last block of one that is present
  kv_medium listed_medium = kv_medium::device;
  std::array<std::uint8_t, k_media> copies{};
  std::vector<std::int32_t> tokens;  // empty for the last block of a unit

  bool present() const { return copies != std::array<std::uint8_t, k_media>{}; }
  std::size_t best_medium() const {
    return static_cast<std::size_t>(
        std::find_if(copies.begin(), copies.end(), [](std::uint8_t c) { return c != 0; }) - copies.begin());
  }
};

class small_blocks final : public engine_blocks {
 public:
  small_blocks(residency_index& index, const block_shape& shape)
      : index_(index), shape_(shape), parts_(shape.unit_tokens / shape.block_tokens), slots_(shape.seed) {
    nodes_.resize(1);  // 0 is no node
  }

  block_result store(const block_run& run, std::size_t& stored) override {
    stored = 0;
    std::uint32_t parent = 0;
    if (run.parent) {
      parent = slots_.find(*run.parent);
      if (parent == 0) return block_result::unknown_parent;
    }
    for (const auto hash : run.hashes) {
      auto at = slots_.find(hash);
      if (at == 0) {
        at = add(hash, parent, run, run.tokens.subspan(stored * shape_.block_tokens, shape_.block_tokens));
        if (at == 0) return block_result::no_room;
      } else if (nodes_[at].parent != parent) {
        return block_result::contradiction;
      }
      count(at, run.medium, true);
      parent = at;
      ++stored;
    }
    return block_result::stored;
  }

  bool store_known(engine_hash hash, kv_medium medium) override {
    const auto at = slots_.find(hash);
    if (at != 0) count(at, medium, true);
    return at != 0;
  }

  bool remove(engine_hash hash, kv_medium medium) override {
    const auto at = slots_.find(hash);
    if (at == 0 || !nodes_[at].present()) return false;
    count(at, medium, false);
    release(at);
    return true;
  }

  std::optional<chain_boundary> boundary(engine_hash hash) const override {
    const auto at = slots_.find(hash);
    if (at == 0 || nodes_[at].position + 1 != parts_) return std::nullopt;
    const auto unit = nodes_[at].unit;
    return chain_boundary{.key = nodes_[at].key,
                          .unit = unit,
                          .near = ancestor(at, unit - unit % k_near_units),
                          .far = ancestor(at, unit - unit % k_far_units)};
  }

  void clear() override {
    slots_.clear();
    nodes_ = std::vector<node>(1);
    free_nodes_ = 0;
    token_bytes_ = 0;
  }

  std::size_t size() const override { return slots_.size(); }
  std::size_t bytes() const override {
    return slots_.bytes() + nodes_.capacity() * sizeof(node) + token_bytes_;
  }

 private:
  std::uint32_t add(engine_hash hash, std::uint32_t parent, const block_run& run,
                    std::span<const std::int32_t> tokens) {
    if (slots_.size() >= k_hashes_per_replica_max || nodes_[parent].children >= k_children_max) return 0;
    node fresh{.hash = hash, .base = run.root, .parent = parent};
    if (parent != 0) {
      const auto& above = nodes_[parent];
      const bool new_unit = above.position + 1 == parts_;
      fresh.position = new_unit ? 0 : above.position + 1;
      fresh.unit = above.unit + (new_unit ? 1 : 0);
      fresh.base = new_unit ? above.key : above.base;
    }
    if (fresh.unit >= k_chain_units_max) return 0;
    if (fresh.position + 1 == parts_) {
      fresh.key = next_key(fresh.base, unit_tokens(parent, tokens));
    } else {
      fresh.tokens.assign(tokens.begin(), tokens.end());
      token_bytes_ += tokens.size_bytes();
    }
    const auto at = take_node();
    if (parent != 0) {
      fresh.next = nodes_[parent].first_child;
      if (fresh.next != 0) nodes_[fresh.next].previous = at;
      nodes_[parent].first_child = at;
      ++nodes_[parent].children;
    }
    nodes_[at] = std::move(fresh);
    slots_.insert(hash, at);
    return at;
  }

  std::span<const std::int32_t> unit_tokens(std::uint32_t parent, std::span<const std::int32_t> last) {
    unit_tokens_.resize(shape_.unit_tokens);
    auto end = unit_tokens_.end() - static_cast<std::ptrdiff_t>(last.size());
    std::copy(last.begin(), last.end(), end);
    for (auto at = parent; end != unit_tokens_.begin(); at = nodes_[at].parent) {
      const auto& part = nodes_[at].tokens;
      end -= static_cast<std::ptrdiff_t>(part.size());
      std::copy(part.begin(), part.end(), end);
    }
    return unit_tokens_;
  }

  std::uint32_t take_node() {
    if (free_nodes_ == 0) {
      nodes_.emplace_back();
      return static_cast<std::uint32_t>(nodes_.size() - 1);
    }
    const auto at = free_nodes_;
    free_nodes_ = nodes_[at].next;
    return at;
  }

  void count(std::uint32_t at, kv_medium medium, bool more) {
    auto& n = nodes_[at];
    const auto before = n.best_medium();
    auto& copies = n.copies[static_cast<std::size_t>(medium)];
    if (more && copies != 0xFF) ++copies;
    if (!more && copies != 0) --copies;
    if (n.best_medium() != before) update_units(at);
  }

  // Lists or delists every unit that this block is a part of.
  void update_units(std::uint32_t at) {
    if (nodes_[at].position + 1 == parts_) return update_unit(at);
    for (auto child = nodes_[at].first_child; child != 0; child = nodes_[child].next) update_units(child);
  }

  void update_unit(std::uint32_t last) {
    auto& n = nodes_[last];
    std::size_t medium = 0;
    for (std::uint32_t k = 0, at = last; k < parts_; ++k, at = nodes_[at].parent) {
      medium = std::max(medium, nodes_[at].best_medium());
    }
    if (n.listed != 0) {
      if (medium < k_media && static_cast<kv_medium>(medium) == n.listed_medium) return;
      index_.pages_removed(shape_.replica, {&n.listed, 1}, n.listed_medium);
      n.listed = 0;
    }
    if (medium == k_media) return;
    n.listed_medium = static_cast<kv_medium>(medium);
    index_.pages_added(shape_.replica, {&n.key, 1}, n.unit, n.listed_medium, {&n.listed, 1});
  }

  // Frees the node and those above it that only it kept.
  void release(std::uint32_t at) {
    while (at != 0 && !nodes_[at].present() && nodes_[at].children == 0) {
      auto& n = nodes_[at];
      const auto parent = n.parent;
      if (parent != 0) {
        --nodes_[parent].children;
        if (n.previous != 0) {
          nodes_[n.previous].next = n.next;
        } else {
          nodes_[parent].first_child = n.next;
        }
        if (n.next != 0) nodes_[n.next].previous = n.previous;
      }
      slots_.erase(n.hash);
      token_bytes_ -= n.tokens.size() * sizeof(std::int32_t);
      n = node{.next = free_nodes_};
      free_nodes_ = at;
      at = parent;
    }
  }

  block_key ancestor(std::uint32_t at, std::uint32_t unit) const {
    while (nodes_[at].unit != unit || nodes_[at].position + 1 != parts_) at = nodes_[at].parent;
    return nodes_[at].key;
  }

  residency_index& index_;
  const block_shape shape_;
  const std::uint32_t parts_;
  hash_slots slots_;
  std::vector<node> nodes_;
  std::uint32_t free_nodes_ = 0;
  std::size_t token_bytes_ = 0;
  std::vector<std::int32_t> unit_tokens_;
};

}  // namespace

std::unique_ptr<engine_blocks> make_small_blocks(residency_index& index, const block_shape& shape) {
  assert(shape.block_tokens < shape.unit_tokens && shape.unit_tokens % shape.block_tokens == 0);
  return std::make_unique<small_blocks>(index, shape);
}

}  // namespace weir::prefix_index
