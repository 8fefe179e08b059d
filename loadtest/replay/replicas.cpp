#include "loadtest/replay/replicas.hpp"

#include "loadtest/truth/worth_cache.hpp"

namespace weir::loadtest::replay {

namespace {

class ruled_replica final : public replica_state {
 public:
  explicit ruled_replica(const truth::cache_rules& rules) : cache_(rules) {}

  truth::cache_match match(std::span<const std::uint64_t> blocks) const override {
    return cache_.match(blocks);
  }
  void store(std::span<const std::uint64_t> blocks, const truth::cache_match& match,
             std::span<const std::size_t> hints, double, std::vector<truth::cache_change>* changes) override {
    cache_.store(blocks, match, hints, changes);
  }

 private:
  truth::replica_cache cache_;
};

class worth_replica final : public replica_state {
 public:
  explicit worth_replica(const truth::worth_rules& rules) : cache_(rules) {}

  truth::cache_match match(std::span<const std::uint64_t> blocks) const override {
    return cache_.match(blocks);
  }
  void store(std::span<const std::uint64_t> blocks, const truth::cache_match& match,
             std::span<const std::size_t> hints, double now_s,
             std::vector<truth::cache_change>* changes) override {
    cache_.store(blocks, match, hints, now_s, changes);
  }

 private:
  truth::worth_cache cache_;
};

}  // namespace

std::optional<retention_kind> to_retention(std::string_view name) {
  if (name == "dense") return retention_kind::dense;
  if (name == "prompt-end") return retention_kind::prompt_end;
  if (name == "second-sighting") return retention_kind::second_sighting;
  if (name == "value") return retention_kind::value;
  if (name == "frequency") return retention_kind::frequency;
  return std::nullopt;
}

std::unique_ptr<replica_state> make_replica(const cache_options& options) {
  if (options.keeps == retention_kind::value) {
    return std::make_unique<worth_replica>(
        truth::worth_rules{.capacity_tokens = options.capacity_tokens,
                           .page_tokens = options.page_tokens,
                           .checkpoint_tokens = options.checkpoint_tokens});
  }
  truth::cache_rules rules{.capacity_tokens = options.capacity_tokens,
                           .page_tokens = options.page_tokens,
                           .checkpoint_tokens = options.checkpoint_tokens};
  rules.dense = options.keeps == retention_kind::dense;
  rules.second_sighting = options.keeps != retention_kind::prompt_end;
  if (options.keeps == retention_kind::frequency) rules.eviction = truth::eviction_order::value;
  return std::make_unique<ruled_replica>(rules);
}

}  // namespace weir::loadtest::replay
