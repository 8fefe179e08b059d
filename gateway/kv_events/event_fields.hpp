// The fields of one KV event as replicas write them, before anything is made of them. One reader takes every
// form: tagged maps and positional arrays of vLLM (all generations: fields were only ever added at the end)
// and arrays of SGLang. Views point into the payload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/kv_events/msgpack_reader.hpp"
#include "prefix_index/kv_event.hpp"

namespace weir::gateway::kv_events {

inline constexpr std::size_t k_event_hashes_max = 1 << 20;
inline constexpr std::size_t k_event_tokens_max = 4 << 20;   // four prompts of a million tokens
inline constexpr std::int64_t k_block_tokens_max = 4 << 20;  // vLLM was seen with 3,145,728
inline constexpr std::size_t k_string_bytes_max = 1 << 10;   // names and salts
inline constexpr std::int64_t k_group_index_max = 1 << 16;

// What besides its tokens makes a block: a LoRA's name or number, identifiers of images, a salt, in this
// order.
struct block_extras {
  std::string_view first;
  std::string_view second;
  std::uint32_t strings = 0;
  std::optional<std::int64_t> number;
  bool has_other = false;  // images with offsets, digests of embeddings, anything else
};

struct event_fields {
  enum class type : std::uint8_t { stored, removed, cleared, unknown };

  std::string_view tag;
  std::optional<std::vector<prefix_index::engine_hash>> hashes;
  std::optional<prefix_index::engine_hash> parent;
  std::vector<std::int32_t> tokens;
  std::int64_t block_tokens = 0;
  std::optional<std::int64_t> lora_id;
  std::string_view lora_name;
  std::string_view medium;
  std::vector<block_extras> extras;  // of each block, or none
  std::optional<std::int32_t> group_index;
  std::string_view spec_kind;
  std::string_view locality;
  std::string_view cache_salt;  // SGLang's; vLLM's is in `extras`

  type what() const noexcept;
};

class event_reader final {
 public:
  explicit event_reader(msgpack_reader& source) : source_(source) {}

  // Reads the event that `head`, an item just taken, begins; false: fault() says what was wrong.
  bool read(const msgpack_reader::item& head, event_fields& out);
  const std::string& fault() const noexcept { return fault_; }

 private:
  enum class field : std::uint8_t {
    tag,
    hashes,
    parent,
    tokens,
    block_tokens,
    lora_id,
    medium,
    lora_name,
    extras,
    group_index,
    spec_kind,
    locality,
    cache_salt,
    ignored
  };
  struct field_name;
  static const field_name k_names[];

  static field find_field(std::string_view name);
  bool fail(std::string_view what);
  bool read_map(std::size_t count, event_fields& out);
  bool read_array(std::size_t count, event_fields& out);
  bool read_field(field which, event_fields& out);
  bool take_field(field which, const msgpack_reader::item& one, event_fields& out);
  bool take_hash(const msgpack_reader::item& one, prefix_index::engine_hash& out);
  bool take_hashes(const msgpack_reader::item& list, std::vector<prefix_index::engine_hash>& out);
  bool take_tokens(const msgpack_reader::item& list, std::vector<std::int32_t>& out);
  bool take_first_of_pair(msgpack_reader::item& one);
  bool take_extras(const msgpack_reader::item& list, std::vector<block_extras>& out);
  bool take_block_extras(const msgpack_reader::item& list, block_extras& out);
  bool take_options(const msgpack_reader::item& map, event_fields& out);
  bool take_text(const msgpack_reader::item& one, std::string_view& out);
  bool take_integer(const msgpack_reader::item& one, std::int64_t least, std::int64_t most,
                    std::int64_t& out);

  msgpack_reader& source_;
  std::string fault_;
};

}  // namespace weir::gateway::kv_events
