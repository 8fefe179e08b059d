#include "loadtest/mock/kv_batch.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "loadtest/mock/msgpack_writer.hpp"

namespace weir::loadtest::mock {

namespace {

using truth::block_id;
using truth::part;

constexpr std::size_t k_digest_bytes = 32;

struct net_change {
  std::vector<block_id> removed[2];        // by part
  std::vector<std::size_t> stored_pages;   // places in the chain, ascending
  std::vector<std::size_t> stored_states;  // checkpoints, likewise
};

net_change net_of(const prompt_state& prompt, std::span<const truth::cache_change> changes) {
  struct span_of_step {
    bool was_held = false;
    bool is_held = false;
  };
  std::map<std::pair<part, block_id>, span_of_step> all;
  std::vector<std::pair<part, block_id>> order;
  for (const auto& one : changes) {
    const auto [at, is_first] = all.try_emplace({one.what, one.id}, span_of_step{!one.stored, false});
    if (is_first) order.emplace_back(one.what, one.id);
    at->second.is_held = one.stored;
  }
  net_change out;
  for (const auto& name : order) {
    const auto& [was_held, is_held] = all[name];
    if (was_held && !is_held) out.removed[static_cast<std::size_t>(name.first)].push_back(name.second);
  }
  const auto is_new = [&](part what, block_id id) {
    const auto found = all.find({what, id});
    return found != all.end() && !found->second.was_held && found->second.is_held;
  };
  for (std::size_t i = 0; i < prompt.chain.size(); ++i) {
    if (is_new(part::page, prompt.chain[i])) out.stored_pages.push_back(i);
    if (is_new(part::checkpoint, prompt.chain[i])) out.stored_states.push_back(i);
  }
  return out;
}

struct group {
  std::uint64_t index = 0;
  std::string_view kind;
};

class batch_writer {
 public:
  batch_writer(kv_form form, const prompt_state& prompt) : form_(form), prompt_(prompt) {}

  void begin(double time_s, std::size_t events) {
    to_.array(3);
    to_.real(time_s);
    to_.array(events);
  }
  std::string end() {
    to_.number(0);  // the data-parallel rank
    return to_.take();
  }
  void cleared() {
    form_ == kv_form::vllm_map ? to_.map(1) : to_.array(1);
    key("type");
    to_.text("AllBlocksCleared");
  }
  void removed(std::span<const block_id> ids, const group& of);
  // Blocks [first, end) of the chain; `hashes` of them, the last ones.
  void stored(std::size_t first, std::size_t end, std::size_t hashes, const group& of);

 private:
  void key(std::string_view name) {
    if (form_ == kv_form::vllm_map) to_.text(name);
  }
  void hash(block_id id);
  void extra_keys(std::size_t first, std::size_t end);
  void options();

  kv_form form_;
  const prompt_state& prompt_;
  msgpack_writer to_;
};

void batch_writer::hash(block_id id) {
  if (form_ == kv_form::vllm_map) return to_.number(id);
  if (form_ == kv_form::sglang) return to_.signed_number(static_cast<std::int64_t>(id));
  std::string digest(k_digest_bytes, '\0');
  for (std::size_t i = 0; i < k_digest_bytes; ++i)
    digest[i] = static_cast<char>(i < k_digest_bytes - sizeof id ? id >> (i % sizeof id)
                                                                 : id >> (8 * (k_digest_bytes - 1 - i)));
  to_.binary(digest);
}

void batch_writer::removed(std::span<const block_id> ids, const group& of) {
  const bool has_group = form_ != kv_form::sglang;
  form_ == kv_form::vllm_map ? to_.map(4) : to_.array(has_group ? 4 : 3);
  key("type");
  to_.text("BlockRemoved");
  key("block_hashes");
  to_.array(ids.size());
  for (const auto id : ids) hash(id);
  key("medium");
  to_.text("GPU");
  key("group_idx");
  if (has_group) to_.number(of.index);
}

void batch_writer::extra_keys(std::size_t first, std::size_t end) {
  to_.array(end - first);
  for (auto at = first; at < end; ++at) {
    if (at > 0 || prompt_.salt.empty()) {
      to_.nil();
    } else {
      to_.array(1);
      to_.text(prompt_.salt);
    }
  }
}

void batch_writer::options() {
  to_.map(1);
  to_.text("cache_salt");
  to_.text(prompt_.salt);
}

void batch_writer::stored(std::size_t first, std::size_t end, std::size_t hashes, const group& of) {
  const bool is_salted = form_ == kv_form::sglang && !prompt_.salt.empty();
  form_ == kv_form::vllm_map     ? to_.map(11)
  : form_ == kv_form::vllm_array ? to_.array(12)
                                 : to_.array(is_salted ? 8 : 7);
  key("type");
  to_.text("BlockStored");
  key("block_hashes");
  to_.array(hashes);
  for (auto at = end - hashes; at < end; ++at) hash(prompt_.chain[at]);
  key("parent_block_hash");
  first == 0 ? to_.nil() : hash(prompt_.chain[first - 1]);
  key("token_ids");
  const auto tokens =
      prompt_.tokens.subspan(first * prompt_.block_tokens, (end - first) * prompt_.block_tokens);
  to_.array(tokens.size());
  for (const auto token : tokens) to_.number(static_cast<std::uint64_t>(token));
  key("block_size");
  to_.number(prompt_.block_tokens);
  key("lora_id");
  to_.nil();
  key("medium");
  to_.text("GPU");
  if (is_salted) options();
  if (form_ == kv_form::sglang) return;
  key("lora_name");
  to_.nil();
  key("extra_keys");
  extra_keys(first, end);
  key("group_idx");
  to_.number(of.index);
  key("kv_cache_spec_kind");
  to_.text(of.kind);
  if (form_ == kv_form::vllm_array) to_.nil();  // the sliding window
}

// Neighbours in the chain, as [first, end).
std::vector<std::pair<std::size_t, std::size_t>> runs_of(const std::vector<std::size_t>& places) {
  std::vector<std::pair<std::size_t, std::size_t>> out;
  for (const auto at : places) {
    if (!out.empty() && out.back().second == at) {
      ++out.back().second;
    } else {
      out.emplace_back(at, at + 1);
    }
  }
  return out;
}

}  // namespace

std::string write_kv_batch(kv_form form, const prompt_state& prompt,
                           std::span<const truth::cache_change> changes, bool is_hybrid, double time_s) {
  const auto net = net_of(prompt, changes);
  const auto& removed_pages = net.removed[static_cast<std::size_t>(part::page)];
  const auto& removed_states = net.removed[static_cast<std::size_t>(part::checkpoint)];
  const auto state_groups = form == kv_form::sglang ? 0 : k_checkpoint_groups;
  const auto runs = runs_of(net.stored_pages);
  const auto events = (removed_pages.empty() ? 0 : 1) + (removed_states.empty() ? 0 : state_groups) +
                      net.stored_states.size() * state_groups + runs.size();
  if (events == 0) return {};
  const group pages = is_hybrid ? group{k_checkpoint_groups, "mla_attention"} : group{0, "full_attention"};
  batch_writer to(form, prompt);
  to.begin(time_s, events);
  for (std::uint64_t g = 0; g < state_groups && !removed_states.empty(); ++g)
    to.removed(removed_states, {g, "mamba"});
  if (!removed_pages.empty()) to.removed(removed_pages, pages);
  auto first = prompt.resumed_pages;
  for (const auto at : net.stored_states) {
    if (at < first) first = 0;
    for (std::uint64_t g = 0; g < state_groups; ++g) to.stored(first, at + 1, 1, {g, "mamba"});
    first = at + 1;
  }
  for (const auto& [begin, end] : runs) to.stored(begin, end, end - begin, pages);
  return to.end();
}

std::string write_cleared_batch(kv_form form, double time_s) {
  batch_writer to(form, {});
  to.begin(time_s, 1);
  to.cleared();
  return to.end();
}

}  // namespace weir::loadtest::mock
