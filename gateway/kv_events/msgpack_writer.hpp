// MessagePack appended to a string, each value in its shortest form. One thread.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace weir::gateway::kv_events {

class msgpack_writer final {
 public:
  void nil() { put(0xc0); }
  void real(double value) {
    put(0xcb);
    big_endian(std::bit_cast<std::uint64_t>(value), 8);
  }
  void array(std::size_t count) { counted(count, 0x90, 16, 0xdc); }
  void map(std::size_t count) { counted(count, 0x80, 16, 0xde); }
  void number(std::uint64_t value) {
    if (value < 0x80) return put(static_cast<unsigned>(value));
    unsigned width = 1;
    unsigned tag = 0xcc;
    for (; width < 8 && value >> (8 * width) != 0; width *= 2) ++tag;
    put(tag);
    big_endian(value, width);
  }
  // REQUIRES: below 4 GiB.
  void text(std::string_view text) {
    if (text.size() >= 32 && text.size() < 256) {
      put(0xd9);
      big_endian(text.size(), 1);
    } else {
      counted(text.size(), 0xa0, 32, 0xda);
    }
    out_ += text;
  }

  std::size_t size() const noexcept { return out_.size(); }
  std::string take() { return std::exchange(out_, {}); }

 private:
  void put(unsigned byte) { out_ += static_cast<char>(byte); }
  void big_endian(std::uint64_t value, unsigned width) {
    for (unsigned i = width; i > 0; --i) put(static_cast<unsigned>(value >> (8 * (i - 1))) & 0xffU);
  }
  // Below `few` in one byte, then behind two or four.
  void counted(std::size_t count, unsigned tag, std::size_t few, unsigned wide_tag) {
    if (count < few) return put(tag | static_cast<unsigned>(count));
    const bool is_long = count > 0xffff;
    put(is_long ? wide_tag + 1 : wide_tag);
    big_endian(count, is_long ? 4 : 2);
  }

  std::string out_;
};

}  // namespace weir::gateway::kv_events
