#include "loadtest/replay/residency.hpp"

#include <algorithm>
#include <unordered_map>

#include "prefix_index/replica_model.hpp"
#include "prefix_index/residency_index.hpp"

namespace weir::loadtest::replay {

namespace {

namespace index = prefix_index;

policy::prefix_view to_view(std::size_t pages, std::size_t reusable, std::int64_t page_tokens,
                            policy::evidence from) {
  return {.page_tokens = static_cast<std::int64_t>(pages) * page_tokens,
          .reusable_tokens = static_cast<std::int64_t>(reusable) * page_tokens,
          .from = from};
}

class true_residency final : public residency {
 public:
  true_residency(const knowledge_options& options,
                 const std::vector<std::unique_ptr<replica_state>>& replicas)
      : page_tokens_(options.cache.page_tokens), replicas_(replicas) {}

  void find(std::span<const std::uint64_t> blocks, std::span<policy::prefix_view> out) override {
    for (std::size_t r = 0; r < replicas_.size(); ++r) {
      const auto m = replicas_[r]->match(blocks);
      out[r] = to_view(m.pages, m.reusable, page_tokens_, policy::evidence::confirmed);
    }
  }
  void dispatched(std::size_t, std::span<const std::uint64_t>, std::span<const std::size_t>,
                  std::span<const truth::cache_change>) override {}

 private:
  std::int64_t page_tokens_;
  const std::vector<std::unique_ptr<replica_state>>& replicas_;
};

// A trace's ids are chained already: the id is the key.
index::block_key to_key(std::uint64_t id) {
  return {.low = id * 0x9e3779b97f4a7c15ULL, .high = ~id};
}

class indexed_residency : public residency {
 public:
  indexed_residency(const knowledge_options& options, std::size_t replicas)
      : page_tokens_(options.cache.page_tokens), holdings_(replicas) {
    for (std::size_t r = 0; r < replicas; ++r) ids_.push_back(static_cast<index::replica_id>(r));
  }

  void find(std::span<const std::uint64_t> blocks, std::span<policy::prefix_view> out) override {
    index_.find(keys_of(blocks), ids_, holdings_);
    for (std::size_t r = 0; r < holdings_.size(); ++r) {
      const auto& h = holdings_[r];
      out[r] = to_view(h.pages, h.checkpoint, page_tokens_, policy::evidence::predicted);
    }
  }

 protected:
  std::span<const index::block_key> keys_of(std::span<const std::uint64_t> blocks) {
    keys_.resize(blocks.size());
    std::transform(blocks.begin(), blocks.end(), keys_.begin(), to_key);
    return keys_;
  }

  index::residency_index index_;
  std::int64_t page_tokens_;
  std::vector<index::replica_id> ids_;

 private:
  std::vector<index::holding> holdings_;
  std::vector<index::block_key> keys_;
};

class simulated_residency final : public indexed_residency {
 public:
  simulated_residency(const knowledge_options& options, std::size_t replicas)
      : indexed_residency(options, replicas) {
    index::replica_model_options model{
        .capacity_tokens = static_cast<std::uint64_t>(static_cast<double>(options.cache.capacity_tokens) *
                                                      options.capacity_believed),
        .unit_tokens = static_cast<std::uint32_t>(options.cache.page_tokens),
        .checkpoint_tokens = static_cast<std::uint32_t>(options.cache.checkpoint_tokens)};
    const bool dense = options.cache.keeps == retention_kind::dense;
    const bool end_only = options.cache.keeps == retention_kind::prompt_end;
    model.keeps = dense ? index::retention::dense : index::retention::prompt_end_second_sighting;
    if (end_only) model.keeps = index::retention::prompt_end;
    for (const auto id : ids_) models_.push_back(std::make_unique<index::replica_model>(index_, id, model));
  }

  void dispatched(std::size_t replica, std::span<const std::uint64_t> blocks,
                  std::span<const std::size_t> hints, std::span<const truth::cache_change>) override {
    const std::vector<std::uint32_t> at(hints.begin(), hints.end());
    models_[replica]->dispatched(keys_of(blocks), at);
  }

 private:
  std::vector<std::unique_ptr<index::replica_model>> models_;
};

class event_residency final : public indexed_residency {
 public:
  event_residency(const knowledge_options& options, std::size_t replicas)
      : indexed_residency(options, replicas), records_(replicas) {
    const bool dense = options.cache.keeps == retention_kind::dense;
    const auto checkpoints = dense ? index::evidence::implied : index::evidence::events;
    for (const auto id : ids_) index_.set_evidence(id, index::evidence::events, checkpoints);
  }

  void dispatched(std::size_t replica, std::span<const std::uint64_t> blocks, std::span<const std::size_t>,
                  std::span<const truth::cache_change> changes) override {
    const auto chain = keys_of(blocks);
    const auto id = ids_[replica];
    std::unordered_map<std::uint64_t, std::uint32_t> unit_of;
    for (std::size_t i = 0; i < blocks.size(); ++i) unit_of.emplace(blocks[i], static_cast<std::uint32_t>(i));
    for (const auto& c : changes) {
      if (c.what == truth::part::page) {
        change_page(id, c, unit_of, chain);
      } else if (c.stored) {
        index_.checkpoint_added(id, index::boundary_of(chain, unit_of.at(c.id)), index::kv_medium::device);
      } else {
        index_.checkpoint_removed(id, to_key(c.id));
      }
    }
  }

 private:
  void change_page(index::replica_id id, const truth::cache_change& c,
                   const std::unordered_map<std::uint64_t, std::uint32_t>& unit_of,
                   std::span<const index::block_key> chain) {
    auto& records = records_[id];
    if (c.stored) {
      const std::uint32_t unit = unit_of.at(c.id);
      index::record_id record = 0;
      index_.pages_added(id, chain.subspan(unit, 1), unit, index::kv_medium::device, {&record, 1});
      records[c.id] = record;
      return;
    }
    const auto found = records.find(c.id);
    if (found == records.end()) return;
    index_.pages_removed(id, {&found->second, 1}, index::kv_medium::device);
    records.erase(found);
  }

  std::vector<std::unordered_map<std::uint64_t, index::record_id>> records_;
};

}  // namespace

std::unique_ptr<residency> make_residency(const knowledge_options& options,
                                          const std::vector<std::unique_ptr<replica_state>>& replicas) {
  switch (options.source) {
    case knowledge::simulated:
      return std::make_unique<simulated_residency>(options, replicas.size());
    case knowledge::events:
      return std::make_unique<event_residency>(options, replicas.size());
    case knowledge::truth:
      break;
  }
  return std::make_unique<true_residency>(options, replicas);
}

}  // namespace weir::loadtest::replay
