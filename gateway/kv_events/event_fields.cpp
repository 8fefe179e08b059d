#include "gateway/kv_events/event_fields.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <span>

namespace weir::gateway::kv_events {

namespace {

using item = msgpack_reader::item;
using kind = msgpack_reader::kind;

constexpr std::size_t k_hash_bytes_max = 64;

}  // namespace

struct event_reader::field_name {
  field which;
  std::string_view name;
};

// Up to `locality` in the order of vLLM's BlockStored as an array.
const event_reader::field_name event_reader::k_names[] = {
    {field::tag, "type"},
    {field::hashes, "block_hashes"},
    {field::parent, "parent_block_hash"},
    {field::tokens, "token_ids"},
    {field::block_tokens, "block_size"},
    {field::lora_id, "lora_id"},
    {field::medium, "medium"},
    {field::lora_name, "lora_name"},
    {field::extras, "extra_keys"},
    {field::group_index, "group_idx"},
    {field::spec_kind, "kv_cache_spec_kind"},
    {field::ignored, "kv_cache_spec_sliding_window"},
    {field::locality, "locality"},
    {field::cache_salt, "cache_salt"},
};

event_fields::type event_fields::what() const noexcept {
  if (tag == "BlockStored") return type::stored;
  if (tag == "BlockRemoved") return type::removed;
  return tag == "AllBlocksCleared" ? type::cleared : type::unknown;
}

event_reader::field event_reader::find_field(std::string_view name) {
  const auto found =
      std::find_if(std::begin(k_names), std::end(k_names), [&](const auto& one) { return one.name == name; });
  return found == std::end(k_names) ? field::ignored : found->which;
}

bool event_reader::fail(std::string_view what) {
  fault_ = what;
  return false;
}

bool event_reader::read(const item& head, event_fields& out) {
  if (head.what == kind::map) return read_map(head.count, out);
  if (head.what == kind::array) return read_array(head.count, out);
  return fail("neither a map nor an array");
}

bool event_reader::read_map(std::size_t count, event_fields& out) {
  bool is_tagged = false;
  for (; count > 0; --count) {
    const auto key = source_.next();
    if (!key) return fail(source_.fault());
    if (key->what != kind::string) return fail("a key is no string");
    const auto which = find_field(key->text());
    is_tagged = is_tagged || which == field::tag;
    if (!read_field(which, out)) return false;
  }
  return is_tagged || fail("no type");
}

bool event_reader::read_array(std::size_t count, event_fields& out) {
  static constexpr field k_removed[] = {field::hashes, field::medium, field::group_index, field::locality};
  if (count == 0) return fail("an empty array");
  if (!read_field(field::tag, out)) return false;
  const auto what = out.what();
  for (std::size_t at = 1; at < count; ++at) {
    auto which = field::ignored;
    if (what == event_fields::type::stored && at < std::size(k_names) - 1) which = k_names[at].which;
    if (what == event_fields::type::removed && at <= std::size(k_removed)) which = k_removed[at - 1];
    if (!read_field(which, out)) return false;
  }
  return true;
}

bool event_reader::read_field(field which, event_fields& out) {
  const auto one = source_.next();
  if (!one) return fail(source_.fault());
  if (which == field::ignored) return source_.skip(*one) || fail(source_.fault());
  if (one->what == kind::nil && which != field::tag && which != field::hashes) return true;
  if (take_field(which, *one, out)) return true;
  const auto named = std::find_if(std::begin(k_names), std::end(k_names),
                                  [&](const auto& row) { return row.which == which; });
  fault_ = std::string(named->name) + ": " + fault_;
  return false;
}

bool event_reader::take_field(field which, const item& one, event_fields& out) {
  std::int64_t number = 0;
  switch (which) {
    case field::tag:
      return take_text(one, out.tag);
    case field::hashes:
      return take_hashes(one, out.hashes.emplace());
    case field::parent:
      return take_hash(one, out.parent.emplace());
    case field::tokens:
      return take_tokens(one, out.tokens);
    case field::block_tokens:
      return take_integer(one, 0, k_block_tokens_max, out.block_tokens);
    case field::lora_id:
      return take_integer(one, std::numeric_limits<std::int64_t>::min(),
                          std::numeric_limits<std::int64_t>::max(), out.lora_id.emplace());
    case field::medium:
      return take_text(one, out.medium);
    case field::lora_name:
      return one.what == kind::map ? take_options(one, out) : take_text(one, out.lora_name);
    case field::extras:
      return take_extras(one, out.extras);
    case field::group_index:
      if (!take_integer(one, 0, k_group_index_max, number)) return false;
      out.group_index = static_cast<std::int32_t>(number);
      return true;
    case field::spec_kind:
      return take_text(one, out.spec_kind);
    case field::locality:
      return take_text(one, out.locality);
    case field::cache_salt:
      return take_text(one, out.cache_salt);
    case field::ignored:
      break;
  }
  return source_.skip(one) || fail(source_.fault());
}

// A digest stands for the low 64 bits of the number that it is, read big-endian.
bool event_reader::take_hash(const item& one, prefix_index::engine_hash& out) {
  if (one.what == kind::integer) {
    out = one.bits;
    return true;
  }
  if (one.what != kind::binary) return fail("a hash is neither an integer nor bytes");
  if (one.bytes.empty() || one.bytes.size() > k_hash_bytes_max) return fail("a hash of no or too many bytes");
  out = 0;
  for (const auto byte : one.bytes.last(std::min(one.bytes.size(), sizeof out)))
    out = (out << 8) | static_cast<std::uint64_t>(byte);
  return true;
}

bool event_reader::take_hashes(const item& list, std::vector<prefix_index::engine_hash>& out) {
  if (list.what != kind::array) return fail("no array");
  if (list.count > k_event_hashes_max) return fail("too many hashes");
  out.clear();
  out.reserve(list.count);
  for (std::size_t i = 0; i < list.count; ++i) {
    const auto one = source_.next();
    if (!one) return fail(source_.fault());
    if (!take_hash(*one, out.emplace_back())) return false;
  }
  return true;
}

bool event_reader::take_tokens(const item& list, std::vector<std::int32_t>& out) {
  if (list.what != kind::array) return fail("no array");
  if (list.count > k_event_tokens_max) return fail("too many tokens");
  out.clear();
  out.reserve(list.count);
  for (std::size_t i = 0; i < list.count; ++i) {
    auto one = source_.next();
    if (!one) return fail(source_.fault());
    if (one->what == kind::array && !take_first_of_pair(*one)) return false;
    std::int64_t token = 0;
    if (!take_integer(*one, 0, std::numeric_limits<std::int32_t>::max(), token)) return false;
    out.push_back(static_cast<std::int32_t>(token));
  }
  return true;
}

// With MTP or EAGLE each token comes with the one behind it.
bool event_reader::take_first_of_pair(item& one) {
  const auto count = one.count;
  if (count != 2) return fail("an entry that is neither a token nor a pair");
  const auto first = source_.next();
  const auto second = source_.next();
  if (!first || !second) return fail(source_.fault());
  if (second->what != kind::integer) return fail("a pair of other things than tokens");
  one = *first;
  return true;
}

bool event_reader::take_extras(const item& list, std::vector<block_extras>& out) {
  if (list.what != kind::array) return fail("no array");
  if (list.count > k_event_hashes_max) return fail("too many blocks");
  out.clear();
  for (std::size_t i = 0; i < list.count; ++i) {
    const auto one = source_.next();
    if (!one) return fail(source_.fault());
    if (one->what != kind::nil && out.size() < i) out.resize(i);
    if (one->what != kind::nil && !take_block_extras(*one, out.emplace_back())) return false;
  }
  if (!out.empty()) out.resize(list.count);
  return true;
}

bool event_reader::take_block_extras(const item& list, block_extras& out) {
  if (list.what != kind::array) {
    out.has_other = true;
    return source_.skip(list) || fail(source_.fault());
  }
  for (std::size_t i = 0; i < list.count; ++i) {
    const auto one = source_.next();
    if (!one) return fail(source_.fault());
    if (one->what == kind::string) {
      std::string_view text;
      if (!take_text(*one, text)) return false;
      if (out.strings < 2) (out.strings == 0 ? out.first : out.second) = text;
      ++out.strings;
    } else if (one->what == kind::integer && !out.number) {
      out.number = static_cast<std::int64_t>(one->bits);
    } else if (one->what != kind::nil) {
      out.has_other = true;
      if (!source_.skip(*one)) return fail(source_.fault());
    }
  }
  return true;
}

// SGLang's place for what it adds: a map, of which the salt matters.
bool event_reader::take_options(const item& map, event_fields& out) {
  for (std::size_t i = 0; i < map.count; ++i) {
    const auto key = source_.next();
    if (!key) return fail(source_.fault());
    if (key->what != kind::string) return fail("a key is no string");
    const auto which = find_field(key->text());
    if (!read_field(which == field::cache_salt ? which : field::ignored, out)) return false;
  }
  return true;
}

bool event_reader::take_text(const item& one, std::string_view& out) {
  if (one.what != kind::string) return fail("no string");
  if (one.bytes.size() > k_string_bytes_max) return fail("too long");
  out = one.text();
  return true;
}

bool event_reader::take_integer(const item& one, std::int64_t least, std::int64_t most, std::int64_t& out) {
  if (one.what != kind::integer) return fail("no integer");
  const auto value = static_cast<std::int64_t>(one.bits);
  const bool is_huge = !one.is_negative && value < 0;
  if (is_huge || value < least || value > most) return fail("an integer out of range");
  out = value;
  return true;
}

}  // namespace weir::gateway::kv_events
