// Blocks of one or more units. A block is one number: of its record where a block is a unit and nobody asks
// for boundaries, else of a row {its units' records, its parent's row}. Copies are counted in the index
// entries, so that one hash alone may stand for a prompt: with two, the removals of one would end the record
// that the other names.
#include <algorithm>
#include <cassert>
#include <vector>

#include "prefix_index/engine_blocks.hpp"
#include "prefix_index/hash_slots.hpp"

namespace weir::prefix_index {

namespace {

class large_blocks final : public engine_blocks {
 public:
  large_blocks(residency_index& index, const block_shape& shape)
      : index_(index),
        shape_(shape),
        units_(shape.block_tokens / shape.unit_tokens),
        has_rows_(units_ > 1 || shape.needs_boundaries),
        row_words_(units_ + 1),
        slots_(shape.seed) {}

  block_result store(const block_run& run, std::size_t& stored) override {
    stored = 0;
    std::uint32_t parent = 0;
    block_key key = run.root;
    std::uint32_t first_unit = 0;
    if (run.parent) {
      parent = slots_.find(*run.parent);
      if (parent == 0) return block_result::unknown_parent;
      const auto last = records(parent).back();
      key = index_.key_of(last);
      first_unit = index_.depth_of(last) + 1;
    }
    hash_keys(key, run.tokens);
    ids_.assign(keys_.size(), 0);
    const bool all_new = index_.pages_added(shape_.replica, keys_, first_unit, run.medium, ids_) == 0;
    for (const auto hash : run.hashes) {
      const auto ids = std::span(ids_).subspan(stored * units_, units_);
      const auto result = keep(hash, ids, all_new, parent);
      if (result != block_result::stored) {
        take_back(std::span(ids_).subspan(stored * units_), run.medium);
        return result;
      }
      ++stored;
    }
    return block_result::stored;
  }

  bool store_known(engine_hash hash, kv_medium medium) override {
    const auto value = slots_.find(hash);
    if (value == 0) return false;
    const auto held = records(value);
    keys_.clear();
    for (const auto id : held) keys_.push_back(index_.key_of(id));
    index_.pages_added(shape_.replica, keys_, index_.depth_of(held.front()), medium, {});
    return true;
  }

  bool remove(engine_hash hash, kv_medium medium) override {
    const auto value = slots_.find(hash);
    if (value == 0) return false;
    if (index_.pages_removed(shape_.replica, records(value), medium) != 0) {
      slots_.erase(hash);
      if (has_rows_) free_row(value);
    }
    return true;
  }

  std::optional<chain_boundary> boundary(engine_hash hash) const override {
    const auto value = slots_.find(hash);
    if (value == 0 || !has_rows_) return std::nullopt;
    const auto last = records(value).back();
    chain_boundary out{.key = index_.key_of(last), .unit = index_.depth_of(last)};
    const auto near = ancestor(value, out.unit - out.unit % k_near_units);
    const auto far = ancestor(value, out.unit - out.unit % k_far_units);
    if (near == 0 || far == 0) return std::nullopt;
    out.near = index_.key_of(near);
    out.far = index_.key_of(far);
    return out;
  }

  void clear() override {
    slots_.clear();
    rows_ = {};
    free_rows_ = 0;
  }

  std::size_t size() const override { return slots_.size(); }
  std::size_t bytes() const override { return slots_.bytes() + rows_.capacity() * sizeof(record_id); }

 private:
  void hash_keys(block_key key, std::span<const std::int32_t> tokens) {
    keys_.clear();
    for (std::size_t at = 0; at + shape_.unit_tokens <= tokens.size(); at += shape_.unit_tokens) {
      key = next_key(key, tokens.subspan(at, shape_.unit_tokens));
      keys_.push_back(key);
    }
  }

  std::span<const record_id> records(const std::uint32_t& value) const {
    if (!has_rows_) return {&value, 1};
    return std::span(rows_).subspan(std::size_t{value - 1} * row_words_, units_);
  }
  std::uint32_t& parent_of(std::uint32_t row) { return rows_[std::size_t{row - 1} * row_words_ + units_]; }
  std::uint32_t parent_of(std::uint32_t row) const {
    return rows_[std::size_t{row - 1} * row_words_ + units_];
  }

  // Names the block; `parent` becomes its value. The index holds the pages already.
  block_result keep(engine_hash hash, std::span<const record_id> ids, bool is_new, std::uint32_t& parent) {
    for (const auto id : ids) {
      if (id == 0) return block_result::no_room;
    }
    if (const auto known = slots_.find(hash); known != 0) {
      if (records(known).back() != ids.back()) return block_result::contradiction;
      parent = known;
      return block_result::stored;
    }
    if (!is_new && index_.copies(shape_.replica, ids.back()) > 1) return block_result::contradiction;
    if (slots_.size() >= k_hashes_per_replica_max) return block_result::no_room;
    const auto value = has_rows_ ? take_row(ids, parent) : ids.back();
    slots_.insert(hash, value);
    parent = value;
    return block_result::stored;
  }

  void take_back(std::span<const record_id> ids, kv_medium medium) {
    index_.pages_removed(shape_.replica, ids, medium);
  }

  std::uint32_t take_row(std::span<const record_id> ids, std::uint32_t parent) {
    auto row = free_rows_;
    if (row != 0) {
      free_rows_ = parent_of(row);
    } else {
      rows_.resize(rows_.size() + row_words_);
      row = static_cast<std::uint32_t>(rows_.size() / row_words_);
    }
    std::copy(ids.begin(), ids.end(), rows_.begin() + static_cast<std::ptrdiff_t>((row - 1) * row_words_));
    parent_of(row) = parent;
    return row;
  }

  // A freed row may still be named by children as their parent: its records are 0 until it is taken again.
  void free_row(std::uint32_t row) {
    const auto first = std::size_t{row - 1} * row_words_;
    std::fill_n(rows_.begin() + static_cast<std::ptrdiff_t>(first), units_, 0);
    parent_of(row) = free_rows_;
    free_rows_ = row;
  }

  // The record of the chain's unit at `depth`, going up from a row; 0 when a row on the way is gone.
  record_id ancestor(std::uint32_t row, std::uint32_t depth) const {
    for (;;) {
      const auto held = records(row);
      if (held.front() == 0) return 0;
      const auto first = index_.depth_of(held.front());
      if (first <= depth) return held[depth - first];
      row = parent_of(row);
      if (row == 0) return 0;
      const auto above = records(row);
      if (above.back() == 0 || index_.depth_of(above.back()) + 1 != first) return 0;
    }
  }

  residency_index& index_;
  const block_shape shape_;
  const std::uint32_t units_;
  const bool has_rows_;
  const std::size_t row_words_;
  hash_slots slots_;
  std::vector<record_id> rows_;
  std::uint32_t free_rows_ = 0;
  std::vector<block_key> keys_;
  std::vector<record_id> ids_;
};

}  // namespace

bool fits(std::uint32_t unit_tokens, std::uint32_t block_tokens) {
  return unit_tokens != 0 && block_tokens != 0 &&
         (unit_tokens % block_tokens == 0 || block_tokens % unit_tokens == 0);
}

std::unique_ptr<engine_blocks> make_large_blocks(residency_index& index, const block_shape& shape) {
  assert(shape.block_tokens % shape.unit_tokens == 0);
  return std::make_unique<large_blocks>(index, shape);
}

std::unique_ptr<engine_blocks> make_engine_blocks(residency_index& index, const block_shape& shape) {
  assert(fits(shape.unit_tokens, shape.block_tokens));
  return shape.block_tokens >= shape.unit_tokens ? make_large_blocks(index, shape)
                                                 : make_small_blocks(index, shape);
}

}  // namespace weir::prefix_index
