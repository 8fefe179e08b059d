#include "gateway/kv_events/engine_events.hpp"

#include <utility>

namespace weir::gateway::kv_events {

namespace {

using engine::cache::cache_event;

prefix_index::kv_event to_event(const cache_event& e) {
  const bool pages = e.of == cache_event::group::mla_pages;
  const std::int32_t group_index = pages ? 0 : 1;
  if (e.what == cache_event::kind::removed)
    return prefix_index::kv_removed{.hashes = {e.hash}, .group_index = group_index};
  prefix_index::kv_stored out{
      .hashes = {e.hash},
      .parent = e.parent_hash,
      .tokens = e.tokens,
      .block_tokens = static_cast<std::uint32_t>(e.tokens.size()),
      .group = pages ? prefix_index::kv_group::pages : prefix_index::kv_group::checkpoint,
      .group_index = group_index,
      .adapter = {},
      .cache_salt = e.scope};
  if (static_cast<std::size_t>(e.position) == e.tokens.size()) out.parent.reset();
  return out;
}

}  // namespace

prefix_index::kv_batch to_batch(std::span<const cache_event> events) {
  prefix_index::kv_batch out;
  out.events.reserve(events.size());
  for (const auto& e : events) out.events.push_back(to_event(e));
  return out;
}

void engine_events::told(const std::vector<cache_event>& events) {
  const std::lock_guard lock(mutex_);
  if (sink_) sink_->received(sequence_++, to_batch(events));
}

void engine_events::follow(std::shared_ptr<stream_sink> sink) {
  const std::lock_guard lock(mutex_);
  sink_ = std::move(sink);
  sequence_ = 0;
}

bool engine_events::is_refused() const {
  const std::lock_guard lock(mutex_);
  return sink_ && !sink_->refusal().empty();
}

}  // namespace weir::gateway::kv_events
