#include "gateway/kv_events/msgpack_reader.hpp"

#include <bit>

namespace weir::gateway::kv_events {

namespace {

using kind = msgpack_reader::kind;

constexpr std::size_t k_depth_cells = 64;

msgpack_reader::item integer(std::uint64_t bits, bool is_negative = false) {
  msgpack_reader::item out;
  out.what = kind::integer;
  out.bits = bits;
  out.is_negative = is_negative;
  return out;
}

std::uint64_t sign_extended(std::uint64_t bits, std::size_t width) {
  const auto shift = 64 - 8 * width;
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(bits << shift) >> shift);
}

}  // namespace

std::optional<msgpack_reader::item> msgpack_reader::fail(std::string_view what) {
  if (fault_.empty()) fault_ = what;
  left_ = {};
  return std::nullopt;
}

std::optional<std::uint64_t> msgpack_reader::take_big_endian(std::size_t width) {
  if (left_.size() < width) {
    fail("the bytes end within an item");
    return std::nullopt;
  }
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < width; ++i) value = (value << 8) | static_cast<std::uint64_t>(left_[i]);
  left_ = left_.subspan(width);
  return value;
}

std::optional<msgpack_reader::item> msgpack_reader::bytes_of(kind what, std::uint64_t size) {
  if (size > left_.size()) return fail("a length goes beyond the bytes");
  item out;
  out.what = what;
  out.bytes = left_.first(size);
  left_ = left_.subspan(size);
  return out;
}

// Every item takes a byte at least.
std::optional<msgpack_reader::item> msgpack_reader::items_of(kind what, std::uint64_t count) {
  if (count > left_.size() / (what == kind::map ? 2 : 1)) return fail("a count goes beyond the bytes");
  item out;
  out.what = what;
  out.count = count;
  return out;
}

std::optional<msgpack_reader::item> msgpack_reader::next() {
  if (left_.empty()) return fail("the bytes end within an item");
  const auto tag = static_cast<unsigned char>(left_.front());
  left_ = left_.subspan(1);
  if (tag < 0x80) return integer(tag);
  if (tag >= 0xe0) return integer(sign_extended(tag, 1), true);
  if (tag < 0x90) return items_of(kind::map, tag & 0x0f);
  if (tag < 0xa0) return items_of(kind::array, tag & 0x0f);
  if (tag < 0xc0) return bytes_of(kind::string, tag & 0x1f);
  return tag >= 0xca && tag <= 0xd3 ? number(tag) : wide(tag);
}

std::optional<msgpack_reader::item> msgpack_reader::number(unsigned char tag) {
  const bool is_float = tag <= 0xcb;
  const auto width = is_float ? (tag == 0xca ? 4U : 8U) : 1U << ((tag - 0xcc) % 4);
  const auto bits = take_big_endian(width);
  if (!bits) return std::nullopt;
  if (is_float) {
    item out;
    out.what = kind::floating;
    out.real = width == 4 ? static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(*bits)))
                          : std::bit_cast<double>(*bits);
    return out;
  }
  if (tag < 0xd0) return integer(*bits);
  const auto value = sign_extended(*bits, width);
  return integer(value, static_cast<std::int64_t>(value) < 0);
}

std::optional<msgpack_reader::item> msgpack_reader::wide(unsigned char tag) {
  struct form {
    kind what;
    std::size_t width;  // of the length or count
  };
  item out;
  switch (tag) {
    case 0xc0:
      return out;
    case 0xc2:
    case 0xc3:
      out.what = kind::boolean;
      out.bits = tag & 1;
      return out;
    case 0xd4:
    case 0xd5:
    case 0xd6:
    case 0xd7:
    case 0xd8:
      return bytes_of(kind::extension, 1 + (std::uint64_t{1} << (tag - 0xd4)));
    case 0xc1:
      return fail("a byte that MessagePack never uses");
    default:
      break;
  }
  const form how = tag <= 0xc6   ? form{kind::binary, std::size_t{1} << (tag - 0xc4)}
                   : tag <= 0xc9 ? form{kind::extension, std::size_t{1} << (tag - 0xc7)}
                   : tag <= 0xdb ? form{kind::string, std::size_t{1} << (tag - 0xd9)}
                   : tag <= 0xdd ? form{kind::array, std::size_t{2} << (tag - 0xdc)}
                                 : form{kind::map, std::size_t{2} << (tag - 0xde)};
  const auto size = take_big_endian(how.width);
  if (!size) return std::nullopt;
  if (how.what == kind::array || how.what == kind::map) return items_of(how.what, *size);
  return bytes_of(how.what, how.what == kind::extension ? *size + 1 : *size);
}

bool msgpack_reader::skip(const item& head) {
  const auto items = [](const item& one) {
    return one.what == kind::array ? one.count : one.what == kind::map ? 2 * one.count : 0;
  };
  std::size_t open[k_depth_cells];
  std::size_t depth = 0;
  const auto limit = static_cast<std::size_t>(depth_max_) < k_depth_cells
                         ? static_cast<std::size_t>(depth_max_)
                         : k_depth_cells;
  auto pending = items(head);
  for (;;) {
    while (pending == 0) {
      if (depth == 0) return fault_.empty();
      pending = open[--depth];
    }
    --pending;
    const auto one = next();
    if (!one) return false;
    if (items(*one) == 0) continue;
    if (depth == limit) {
      fail("nested too deep");
      return false;
    }
    open[depth++] = pending;
    pending = items(*one);
  }
}

}  // namespace weir::gateway::kv_events
