// One connection between two ranks: frames of a fixed head and bytes, each read and written whole by a
// deadline. What comes is checked against what is expected before memory is taken for it. One thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/result.hpp"

namespace weir::engine::parallel {

struct frame_head {
  std::uint32_t magic = 0;
  std::uint32_t kind = 0;    // the two ends' own numbering
  std::uint64_t amount = 0;  // what the operation is about, the same at both ends
  std::uint64_t bytes = 0;   // that follow
};
static_assert(sizeof(frame_head) == 24);

using link_clock = std::chrono::steady_clock;
// Nothing: as long as the other end lives.
using link_deadline = std::optional<link_clock::time_point>;

enum class link_fault : std::uint8_t {
  ended,    // the connection, or the machine at its other end
  late,     // the deadline passed
  garbled,  // something else came than frames
};

class tcp_link final {
 public:
  explicit tcp_link(int fd) noexcept;  // takes it over
  ~tcp_link();
  tcp_link(tcp_link&& other) noexcept;
  tcp_link& operator=(tcp_link&& other) noexcept;
  tcp_link(const tcp_link&) = delete;
  tcp_link& operator=(const tcp_link&) = delete;

  // Tries until `deadline`, since the other end may start later. errc::io says what was in the way.
  static result<tcp_link> dial(const std::string& host, std::uint16_t port, link_clock::time_point deadline);

  std::optional<link_fault> send(frame_head head, std::span<const std::byte> body, link_deadline by);
  std::optional<link_fault> receive(frame_head& head, link_deadline by);
  std::optional<link_fault> receive(std::span<std::byte> body, link_deadline by);
  // Whether the other end is known to have gone. Does not wait, takes nothing.
  bool has_ended() const noexcept;

 private:
  std::optional<link_fault> wait(short events, link_deadline by) const;

  int fd_;
};

// Text of the other end as one may show it: printable ASCII.
std::string readable(std::string text);

// Waits for connections on one address.
class tcp_gate final {
 public:
  static result<tcp_gate> open(const std::string& host, std::uint16_t port);
  ~tcp_gate();
  tcp_gate(tcp_gate&& other) noexcept;
  tcp_gate(const tcp_gate&) = delete;
  tcp_gate& operator=(const tcp_gate&) = delete;

  std::uint16_t port() const noexcept { return port_; }
  // Nothing: the deadline passed.
  std::optional<tcp_link> accept(link_clock::time_point by);

 private:
  tcp_gate(int fd, std::uint16_t port) noexcept : fd_(fd), port_(port) {}

  int fd_;
  std::uint16_t port_;
};

}  // namespace weir::engine::parallel
