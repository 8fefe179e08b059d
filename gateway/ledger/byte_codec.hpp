// Fixed little-endian numbers and length-prefixed text. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace weir::gateway::ledger {

// Most significant byte first, so that keys sort as their numbers do.
template <class T>
void append_ordered(std::string& out, T number) {
  const auto bits = static_cast<std::make_unsigned_t<T>>(number);
  for (std::size_t i = sizeof(T); i-- > 0;) out.push_back(static_cast<char>((bits >> (8 * i)) & 0xff));
}

class byte_writer final {
 public:
  template <class T>
  byte_writer& number(T value) {
    const auto bits = static_cast<std::make_unsigned_t<T>>(value);
    for (std::size_t i = 0; i < sizeof(T); ++i) out_.push_back(static_cast<char>((bits >> (8 * i)) & 0xff));
    return *this;
  }
  // REQUIRES: below 64 KiB.
  byte_writer& text(std::string_view value) {
    number(static_cast<std::uint16_t>(value.size()));
    return bytes(value);
  }
  byte_writer& bytes(std::string_view value) {
    out_.append(value);
    return *this;
  }
  byte_writer& flag(bool value) { return number(static_cast<std::uint8_t>(value)); }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

// Reads untrusted bytes; after the first thing that is missing or out of range everything reads as zero and
// whole() is false.
class byte_reader final {
 public:
  explicit byte_reader(std::string_view bytes) : left_(bytes) {}

  template <class T>
  T number(T max = std::numeric_limits<T>::max()) {
    const auto value = static_cast<T>(raw(sizeof(T), false));
    return check(value >= 0 && value <= max) ? value : T{0};
  }
  template <class T>
  T ordered(T max = std::numeric_limits<T>::max()) {
    const auto value = static_cast<T>(raw(sizeof(T), true));
    return check(value >= 0 && value <= max) ? value : T{0};
  }
  std::string text(std::size_t bytes_min, std::size_t bytes_max) {
    const std::size_t size = number<std::uint16_t>();
    return std::string(bytes(check(size >= bytes_min && size <= bytes_max) ? size : 0));
  }
  std::string_view bytes(std::size_t size) {
    if (!check(size <= left_.size())) return {};
    const auto out = left_.substr(0, size);
    left_.remove_prefix(size);
    return out;
  }
  bool flag() { return number<std::uint8_t>(1) != 0; }
  std::size_t left() const { return left_.size(); }
  // Everything was there and nothing is left over.
  bool whole() const { return good_ && left_.empty(); }

 private:
  bool check(bool holds) {
    good_ = good_ && holds;
    return good_;
  }
  std::uint64_t raw(std::size_t size, bool ordered) {
    const auto from = bytes(size);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < from.size(); ++i) {
      const auto byte = static_cast<unsigned char>(from[ordered ? i : from.size() - 1 - i]);
      value = value << 8 | byte;
    }
    return value;
  }

  std::string_view left_;
  bool good_ = true;
};

}  // namespace weir::gateway::ledger
