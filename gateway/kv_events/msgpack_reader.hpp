// MessagePack read item by item from one buffer, with nothing allocated: what replicas send is read straight
// into its place. Every length is checked against the bytes that are left before it is believed, so a count
// can be trusted to reserve by. A fault is sticky: next() then answers nothing more. One thread; the buffer
// outlives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace weir::gateway::kv_events {

class msgpack_reader final {
 public:
  enum class kind : std::uint8_t {
    nil,
    boolean,   // bits 0 or 1
    integer,   // bits, two's complement; is_negative says which half
    floating,  // real
    string,    // bytes
    binary,    // bytes
    array,     // count items follow
    map,       // count pairs of items follow
    extension  // bytes
  };

  struct item {
    kind what = kind::nil;
    bool is_negative = false;
    std::uint64_t bits = 0;
    double real = 0;
    std::size_t count = 0;
    std::span<const std::byte> bytes;

    std::string_view text() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
  };

  // `depth_max`: of arrays and maps within an item that skip() passes over.
  msgpack_reader(std::span<const std::byte> bytes, int depth_max) : left_(bytes), depth_max_(depth_max) {}

  // The next item, of an array or a map its head alone. Nothing when the bytes end or are no MessagePack.
  std::optional<item> next();

  // Passes over what belongs to `head`, an item just taken. False at a fault.
  bool skip(const item& head);

  bool at_end() const noexcept { return left_.empty(); }
  std::size_t left_bytes() const noexcept { return left_.size(); }
  std::string_view fault() const noexcept { return fault_; }  // empty while all is well

 private:
  std::optional<item> fail(std::string_view what);
  std::optional<item> wide(unsigned char tag);
  std::optional<item> number(unsigned char tag);
  std::optional<item> bytes_of(kind what, std::uint64_t size);
  std::optional<item> items_of(kind what, std::uint64_t count);
  std::optional<std::uint64_t> take_big_endian(std::size_t width);

  std::span<const std::byte> left_;
  int depth_max_;
  std::string_view fault_;
};

}  // namespace weir::gateway::kv_events
