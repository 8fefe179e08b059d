#include "gateway/kv_events/batch_writer.hpp"

#include <vector>

#include "gateway/kv_events/msgpack_writer.hpp"

namespace weir::gateway::kv_events {

namespace {

using engine::cache::cache_event;
using run = std::span<const cache_event>;

bool starts_prompt(const cache_event& e) {
  return static_cast<std::size_t>(e.position) == e.tokens.size();
}

// Whether one wire event can tell of both.
bool goes_on(const cache_event& before, const cache_event& e) {
  if (e.what != before.what || e.of != before.of) return false;
  if (e.what == cache_event::kind::removed) return true;
  return e.of == cache_event::group::mla_pages && !starts_prompt(e) && e.parent_hash == before.hash &&
         e.scope == before.scope && e.tokens.size() == before.tokens.size();
}

std::vector<run> runs_of(run events) {
  std::vector<run> out;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (i > 0 && goes_on(events[i - 1], events[i])) {
      out.back() = run(out.back().data(), out.back().size() + 1);
    } else {
      out.push_back(events.subspan(i, 1));
    }
  }
  return out;
}

void write_hashes(msgpack_writer& to, run blocks) {
  to.text("block_hashes");
  to.array(blocks.size());
  for (const auto& e : blocks) to.number(e.hash);
}

void write_group(msgpack_writer& to, cache_event::group of) {
  to.text("group_idx");
  to.number(of == cache_event::group::mla_pages ? 0 : 1);
}

void write_removed(msgpack_writer& to, run blocks) {
  to.map(4);
  to.text("type");
  to.text("BlockRemoved");
  write_hashes(to, blocks);
  to.text("medium");
  to.text("GPU");  // where vLLM says that blocks can be used at once
  write_group(to, blocks.front().of);
}

// The salt belongs to the block that starts a prompt.
void write_extra_keys(msgpack_writer& to, run blocks) {
  to.text("extra_keys");
  to.array(blocks.size());
  for (const auto& e : blocks) {
    if (!starts_prompt(e) || e.scope.empty()) {
      to.nil();
      continue;
    }
    to.array(1);
    to.text(e.scope);
  }
}

void write_stored(msgpack_writer& to, run blocks) {
  const auto& first = blocks.front();
  to.map(11);
  to.text("type");
  to.text("BlockStored");
  write_hashes(to, blocks);
  to.text("parent_block_hash");
  starts_prompt(first) ? to.nil() : to.number(first.parent_hash);
  to.text("token_ids");
  to.array(blocks.size() * first.tokens.size());
  for (const auto& e : blocks) {
    for (const auto token : e.tokens) to.number(static_cast<std::uint64_t>(token));
  }
  to.text("block_size");
  to.number(first.tokens.size());
  to.text("lora_id");
  to.nil();
  to.text("medium");
  to.text("GPU");
  to.text("lora_name");
  to.nil();
  write_extra_keys(to, blocks);
  write_group(to, first.of);
  to.text("kv_cache_spec_kind");
  to.text(first.of == cache_event::group::mla_pages ? "mla_attention" : "mamba");
}

void begin(msgpack_writer& to, double time_s, std::size_t events) {
  to.array(3);
  to.real(time_s);
  to.array(events);
}

std::string end(msgpack_writer& to) {
  to.number(0);  // the data-parallel rank
  return to.take();
}

}  // namespace

std::size_t batch_size(std::span<const cache_event> events) {
  std::size_t count = 0;
  std::size_t tokens = 0;
  while (count < events.size() && count < k_written_events_max) {
    tokens += events[count].tokens.size();
    if (count > 0 && tokens > k_written_tokens_max) break;
    ++count;
  }
  return count;
}

std::string write_batch(std::span<const cache_event> events, double time_s) {
  const auto runs = runs_of(events);
  msgpack_writer to;
  begin(to, time_s, runs.size());
  for (const auto& blocks : runs) {
    blocks.front().what == cache_event::kind::stored ? write_stored(to, blocks) : write_removed(to, blocks);
  }
  return end(to);
}

std::string write_cleared_batch(double time_s) {
  msgpack_writer to;
  begin(to, time_s, 1);
  to.map(1);
  to.text("type");
  to.text("AllBlocksCleared");
  return end(to);
}

}  // namespace weir::gateway::kv_events
