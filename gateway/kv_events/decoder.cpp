#include "gateway/kv_events/decoder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "gateway/kv_events/event_fields.hpp"
#include "gateway/kv_events/msgpack_reader.hpp"

namespace weir::gateway::kv_events {

namespace {

namespace index = prefix_index;
using item = msgpack_reader::item;
using kind = msgpack_reader::kind;

struct medium_name {
  std::string_view name;
  index::kv_medium medium;
};

constexpr medium_name k_media[] = {
    {"", index::kv_medium::device},        {"GPU", index::kv_medium::device},
    {"CPU", index::kv_medium::host},       {"CPU_PINNED", index::kv_medium::host},
    {"CPU_TIER1", index::kv_medium::host}, {"CPU_TIER2", index::kv_medium::host},
    {"DISK", index::kv_medium::storage},   {"FS", index::kv_medium::storage},
    {"OBJ", index::kv_medium::storage},    {"STORAGE", index::kv_medium::storage},
};

std::optional<index::kv_medium> find_medium(std::string_view name) {
  const auto found =
      std::find_if(std::begin(k_media), std::end(k_media), [&](const auto& one) { return one.name == name; });
  if (found == std::end(k_media)) return std::nullopt;
  return found->medium;
}

// An engine that names no kind has attention in its first group; of others nothing is known.
index::kv_group group_of(const event_fields& fields) {
  const auto name = fields.spec_kind;
  if (name.empty())
    return fields.group_index.value_or(0) == 0 ? index::kv_group::pages : index::kv_group::other;
  if (name == "full_attention" || name == "mla_attention" || name == "sink_full_attention")
    return index::kv_group::pages;
  return name == "mamba" ? index::kv_group::checkpoint : index::kv_group::other;
}

class batch_decoder final {
 public:
  explicit batch_decoder(std::span<const std::byte> payload) : source_(payload, k_depth_max) {}

  bool decode();
  decoded_batch& result() noexcept { return out_; }
  std::string& fault() noexcept { return fault_; }

 private:
  bool fail(std::string what);
  bool read_time();
  bool read_rank();
  bool read_events();
  bool read_array(std::size_t count);
  bool read_map(std::size_t count);
  bool skip_one();
  bool add(event_fields& fields);
  bool add_stored(event_fields& fields, index::kv_medium medium);
  bool add_removed(event_fields& fields, index::kv_medium medium);
  std::size_t text_blocks(const event_fields& fields, index::kv_stored& event) const;

  msgpack_reader source_;
  decoded_batch out_;
  std::string fault_;
};

bool batch_decoder::fail(std::string what) {
  fault_ = std::move(what);
  return false;
}

bool batch_decoder::decode() {
  const auto head = source_.next();
  if (!head) return fail(std::string(source_.fault()));
  if (head->what != kind::array && head->what != kind::map)
    return fail("the batch is neither a map nor an array");
  if (!(head->what == kind::array ? read_array(head->count) : read_map(head->count))) return false;
  return source_.at_end() || fail("bytes behind the batch");
}

bool batch_decoder::read_array(std::size_t count) {
  if (count < 2) return fail("the batch has no events");
  if (!read_time() || !read_events()) return false;
  if (count > 2 && !read_rank()) return false;
  for (std::size_t i = 3; i < count; ++i)
    if (!skip_one()) return false;
  return true;
}

bool batch_decoder::read_map(std::size_t count) {
  bool has_events = false;
  for (; count > 0; --count) {
    const auto key = source_.next();
    if (!key) return fail(std::string(source_.fault()));
    if (key->what != kind::string) return fail("a key of the batch is no string");
    const auto name = key->text();
    bool is_read = false;
    if (name == "ts") {
      is_read = read_time();
    } else if (name == "events") {
      if (has_events) return fail("the batch has events twice");
      has_events = true;
      is_read = read_events();
    } else if (name == "data_parallel_rank" || name == "attn_dp_rank") {
      is_read = read_rank();
    } else {
      is_read = skip_one();
    }
    if (!is_read) return false;
  }
  return has_events || fail("the batch has no events");
}

bool batch_decoder::skip_one() {
  const auto one = source_.next();
  return (one && source_.skip(*one)) || fail(std::string(source_.fault()));
}

bool batch_decoder::read_time() {
  const auto one = source_.next();
  if (!one) return fail(std::string(source_.fault()));
  if (one->what == kind::floating) {
    out_.batch.time_s = one->real;
  } else if (one->what == kind::integer) {
    out_.batch.time_s = one->is_negative ? static_cast<double>(static_cast<std::int64_t>(one->bits))
                                         : static_cast<double>(one->bits);
  } else {
    return fail("the batch's time is no number");
  }
  return true;
}

bool batch_decoder::read_rank() {
  const auto one = source_.next();
  if (!one) return fail(std::string(source_.fault()));
  if (one->what == kind::nil) return true;
  if (one->what != kind::integer || one->is_negative || one->bits > static_cast<std::uint64_t>(k_rank_max))
    return fail("the batch's rank is no small number");
  out_.batch.data_parallel_rank = static_cast<std::int32_t>(one->bits);
  return true;
}

bool batch_decoder::read_events() {
  const auto list = source_.next();
  if (!list) return fail(std::string(source_.fault()));
  if (list->what != kind::array) return fail("the batch's events are no array");
  if (list->count > k_batch_events_max) return fail("the batch has too many events");
  out_.batch.events.reserve(list->count);
  for (std::size_t i = 0; i < list->count; ++i) {
    event_reader reader(source_);
    event_fields fields;
    const auto head = source_.next();
    if (!head) return fail(std::string(source_.fault()));
    if (!reader.read(*head, fields)) return fail(fmt::format("event {}: {}", i, reader.fault()));
    if (!add(fields)) return fail(fmt::format("event {}: {}", i, fault_));
  }
  return true;
}

bool batch_decoder::add(event_fields& fields) {
  const auto what = fields.what();
  if (what == event_fields::type::cleared) {
    out_.batch.events.emplace_back(index::kv_cleared{});
    return true;
  }
  if (what == event_fields::type::unknown) {
    ++out_.skipped.unknown_type;
    return true;
  }
  if (!fields.hashes) return fail("no block_hashes");
  if (!fields.locality.empty() && fields.locality != "LOCAL") {
    ++out_.skipped.not_local;
    return true;
  }
  const auto medium = find_medium(fields.medium);
  if (!medium) {
    ++out_.skipped.unknown_medium;
    return true;
  }
  return what == event_fields::type::stored ? add_stored(fields, *medium) : add_removed(fields, *medium);
}

bool batch_decoder::add_removed(event_fields& fields, index::kv_medium medium) {
  index::kv_removed event;
  event.hashes = std::move(*fields.hashes);
  event.medium = medium;
  event.group_index = fields.group_index;
  out_.batch.events.emplace_back(std::move(event));
  return true;
}

// How many of the first blocks hold text alone; takes the salt and, where no field named it, the LoRA from
// what makes the blocks besides their tokens.
std::size_t batch_decoder::text_blocks(const event_fields& fields, index::kv_stored& event) const {
  const bool has_lora = fields.lora_id.has_value() || !fields.lora_name.empty();
  for (std::size_t i = 0; i < fields.extras.size(); ++i) {
    const auto& one = fields.extras[i];
    if (one.has_other || (one.number && one.number != fields.lora_id)) return i;
    const std::uint32_t names = has_lora && !one.number && one.strings > 0 ? 1 : 0;
    const bool may_have_salt = i == 0 && !fields.parent;
    if (one.strings > names + (may_have_salt ? 1U : 0U)) return i;
    if (names > 0 && fields.lora_name.empty() && i == 0) event.adapter = one.first;
    if (one.strings > names) event.cache_salt = names == 0 ? one.first : one.second;
  }
  return std::max(fields.extras.size(), event.hashes.size());
}

bool batch_decoder::add_stored(event_fields& fields, index::kv_medium medium) {
  index::kv_stored event;
  event.hashes = std::move(*fields.hashes);
  event.parent = fields.parent;
  event.tokens = std::move(fields.tokens);
  event.block_tokens = static_cast<std::uint32_t>(fields.block_tokens);
  event.medium = medium;
  event.group = group_of(fields);
  event.group_index = fields.group_index.value_or(0);
  event.cache_salt = fields.cache_salt;
  event.adapter = fields.lora_name;
  if (event.block_tokens == 0 && !event.tokens.empty()) return fail("block_size: 0, yet there are tokens");
  if (event.hashes.empty()) {
    ++out_.skipped.inconsistent;
    return true;
  }
  const auto text = text_blocks(fields, event);
  if (event.adapter.empty() && fields.lora_id) event.adapter = fmt::format("lora_id:{}", *fields.lora_id);
  const bool is_whole = text >= event.hashes.size();
  if (text == 0 || (!is_whole && event.group != index::kv_group::pages)) {
    ++out_.skipped.not_text;
    return true;
  }
  if (event.group == index::kv_group::pages && !event.tokens.empty()) {
    const auto blocks = std::min({event.hashes.size(), event.tokens.size() / event.block_tokens, text});
    if (blocks == 0) {
      ++out_.skipped.inconsistent;
      return true;
    }
    event.hashes.resize(blocks);
    event.tokens.resize(blocks * event.block_tokens);
  } else if (!is_whole) {
    event.hashes.resize(text);
  }
  out_.batch.events.emplace_back(std::move(event));
  return true;
}

}  // namespace

std::expected<decoded_batch, std::string> decode_batch(std::span<const std::byte> payload) {
  if (payload.size() > k_payload_bytes_max) return std::unexpected("the batch has too many bytes");
  batch_decoder decoder(payload);
  if (!decoder.decode()) return std::unexpected(std::move(decoder.fault()));
  return std::move(decoder.result());
}

}  // namespace weir::gateway::kv_events
