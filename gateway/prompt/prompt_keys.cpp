#include "gateway/prompt/prompt_keys.hpp"

#include <cassert>
#include <limits>
#include <utility>

namespace weir::gateway {

using engine::text::prompt_segment;
using prefix_index::block_key;

namespace {

// Tags of the hash chains. A special token has its id as tag, which is never negative.
constexpr std::uint64_t k_tag_memory = 1ULL << 32;      // the chain's beginning
constexpr std::uint64_t k_tag_new_text = 2ULL << 32;    // text that begins in this chunk
constexpr std::uint64_t k_tag_more_text = 3ULL << 32;   // text that began before
constexpr std::uint64_t k_tag_text_chunk = 4ULL << 32;  // keys of text

block_key memory_root(const block_key& root, std::uint64_t tokenizer, std::uint64_t unit_tokens) {
  const std::uint64_t fields[2] = {tokenizer, unit_tokens};
  return next_text_key(root, k_tag_memory, {reinterpret_cast<const char*>(fields), sizeof fields});
}

}  // namespace

prompt_keyer::prompt_keyer(prompt_memory* memory, const engine::text::tokenizer& tok,
                           std::span<const prompt_segment> segments, const block_key& root,
                           std::size_t unit_tokens)
    : memory_(memory),
      tok_(&tok),
      rest_(segments),
      unit_tokens_(unit_tokens),
      chunk_(memory_root(root, tok.fingerprint(), unit_tokens)),
      last_(root) {
  assert(unit_tokens > 0);
}

bool prompt_keyer::step(std::size_t bytes_max) {
  std::size_t spent = 0;
  while (!rest_.empty() && spent < bytes_max) {
    const bool whole = gather();
    if (chunk_bytes_ > k_memory_chunk_bytes + k_uncut_bytes_max) {
      cut_short();
      return true;
    }
    const std::size_t first = out_.keys.size();
    if (whole && memory_ != nullptr && memory_->recall(chunk_, out_.keys, state_)) {
      if (out_.keys.size() > first) last_ = out_.keys.back();
      out_.remembered_bytes += chunk_bytes_;
      spent += chunk_bytes_ / k_recall_discount;
      continue;
    }
    tokenize();
    out_.tokenized_bytes += chunk_bytes_;
    spent += chunk_bytes_;
    if (whole && memory_ != nullptr) {
      memory_->remember(chunk_, std::span(out_.keys).subspan(first), state_);
    }
  }
  return rest_.empty();
}

bool prompt_keyer::gather() {
  parts_.clear();
  gathered_bytes_ += chunk_bytes_;
  const std::size_t goal = std::clamp(gathered_bytes_ / 4, k_memory_chunk_bytes_min, k_memory_chunk_bytes);
  chunk_bytes_ = 0;
  while (!rest_.empty() && chunk_bytes_ < goal) {
    const prompt_segment& segment = rest_.front();
    if (segment.special >= 0) {
      add({segment.special, false, {}});
      chunk_bytes_ += sizeof segment.special;
      rest_ = rest_.subspan(1);
      continue;
    }
    const std::string_view text = segment.text.substr(text_at_);
    const std::size_t wanted = goal - chunk_bytes_;
    const std::size_t bytes = text.size() <= wanted ? text.size() : tok_->safe_cut(text, wanted);
    add({-1, text_at_ == 0, text.substr(0, bytes)});
    chunk_bytes_ += bytes;
    text_at_ += bytes;
    if (bytes < text.size()) return true;
    text_at_ = 0;
    rest_ = rest_.subspan(1);
  }
  return chunk_bytes_ >= goal;
}

void prompt_keyer::add(const part& p) {
  const auto tag = p.special >= 0  ? static_cast<std::uint64_t>(p.special)
                   : p.begins_text ? k_tag_new_text
                                   : k_tag_more_text;
  chunk_ = next_text_key(chunk_, tag, p.text);
  parts_.push_back(p);
}

void prompt_keyer::tokenize() {
  auto& tokens = state_.unfinished;
  const std::size_t before = tokens.size();
  for (const part& p : parts_) {
    if (p.special >= 0) {
      tokens.push_back(p.special);
      continue;
    }
    if (p.begins_text) state_.text = {};
    tok_->encode_slice(p.text, state_.text, tokens);
  }
  state_.tokens += tokens.size() - before;
  std::size_t at = 0;
  for (; at + unit_tokens_ <= tokens.size(); at += unit_tokens_) {
    last_ = next_key(last_, std::span(tokens).subspan(at, unit_tokens_));
    out_.keys.push_back(last_);
  }
  tokens.erase(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(at));
}

void prompt_keyer::cut_short() {
  std::size_t bytes = chunk_bytes_ - text_at_;
  for (const prompt_segment& segment : rest_) bytes += segment.text.size();
  state_.tokens += bytes / k_bytes_per_token_estimate;
  out_.cut_short = true;
  rest_ = {};
}

prompt_keys prompt_keyer::take() {
  assert(rest_.empty());
  out_.how = keyed_how::tokens;
  out_.tokens = state_.tokens;
  out_.unit_tokens = unit_tokens_;
  return std::move(out_);
}

prompt_keys key_prompt(prompt_memory* memory, const engine::text::tokenizer& tok,
                       std::span<const prompt_segment> segments, const block_key& root,
                       std::size_t unit_tokens) {
  prompt_keyer keyer(memory, tok, segments, root, unit_tokens);
  while (!keyer.step(std::numeric_limits<std::size_t>::max())) {
  }
  return keyer.take();
}

prompt_keys key_text(const block_key& root, std::string_view canonical_text) {
  prompt_keys out;
  out.how = canonical_text.empty() ? keyed_how::none : keyed_how::text;
  out.tokens = canonical_text.size() / k_bytes_per_token_estimate;
  out.unit_tokens = k_text_chunk_bytes / k_bytes_per_token_estimate;
  block_key last = root;
  for (std::size_t at = 0; at + k_text_chunk_bytes <= canonical_text.size(); at += k_text_chunk_bytes) {
    last = next_text_key(last, k_tag_text_chunk, canonical_text.substr(at, k_text_chunk_bytes));
    out.keys.push_back(last);
  }
  return out;
}

std::string canonical_text(const engine::text::chat_prompt& prompt) {
  constexpr char k_field = '\x1F', k_record = '\x1E';
  std::string out = prompt.tools_json;
  for (const auto& message : prompt.messages) {
    ((out += k_record) += message.role) += k_field;
    for (const std::string* part :
         {&message.tool_call_id, &message.name, &message.reasoning, &message.tools_json}) {
      if (!part->empty()) (out += *part) += k_field;
    }
    out += message.content;
    for (const auto& call : message.tool_calls) {
      ((out += k_field) += call.name) += k_field;
      out += call.arguments;
    }
  }
  return out;
}

}  // namespace weir::gateway
