// MessagePack appended to a string, each value in its shortest form. One thread.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace weir::loadtest::mock {

class msgpack_writer final {
 public:
  void nil() { byte(0xc0); }
  void real(double value) { head(0xcb, std::bit_cast<std::uint64_t>(value), 8); }
  void array(std::size_t count) { count < 16 ? byte(0x90 | count) : sized(0xdc, 2, count); }
  void map(std::size_t count) { count < 16 ? byte(0x80 | count) : sized(0xde, 2, count); }
  void number(std::uint64_t value) { value < 128 ? byte(value) : sized(0xcc, 1, value); }
  void binary(std::string_view bytes) {
    sized(0xc4, 1, bytes.size());
    out_ += bytes;
  }
  void text(std::string_view text) {
    text.size() < 32 ? byte(0xa0 | text.size()) : sized(0xd9, 1, text.size());
    out_ += text;
  }
  void signed_number(std::int64_t value) {
    if (value >= 0) return number(static_cast<std::uint64_t>(value));
    head(0xd3, static_cast<std::uint64_t>(value), 8);
  }

  std::string take() { return std::move(out_); }

 private:
  void byte(std::size_t value) { out_ += static_cast<char>(value); }
  void head(unsigned tag, std::uint64_t value, unsigned width) {
    char bytes[1 + sizeof value];
    bytes[0] = static_cast<char>(tag);
    for (unsigned i = 0; i < width; ++i) bytes[width - i] = static_cast<char>(value >> (8 * i));
    out_.append(bytes, 1 + width);
  }
  // The tags of growing widths follow one another.
  void sized(unsigned tag, unsigned width, std::uint64_t value) {
    while (width < 8 && (value >> (8 * width)) != 0) {
      width *= 2;
      ++tag;
    }
    head(tag, value, width);
  }

  std::string out_;
};

}  // namespace weir::loadtest::mock
