// One connection to a Redis or Valkey server: commands out, replies in, each with a deadline. Owns its socket
// and TLS; hiredis reads and writes the protocol (RESP2). After an error it is of no use any more: destroy it
// and dial anew, so that no reply is ever taken for that of another command.
//
// Blocks; one thread. Once `given_up` is set, by any thread, no wait takes longer than k_given_up_wait.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <expected>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace weir::gateway::shared {

// Of one reply. A hash with a field for each of thousands of gateways fits; what a server only announces is
// not allocated.
inline constexpr std::size_t k_reply_bytes_max = 1 << 20;
inline constexpr std::size_t k_reply_elements_max = 1 << 16;  // of one list

inline constexpr std::chrono::milliseconds k_given_up_wait{50};

using link_time = std::chrono::steady_clock::time_point;

struct store_address {
  std::string host;
  std::uint16_t port = 6379;
  bool tls = false;
  std::filesystem::path ca_file;  // empty: the system's authorities
};

struct store_value {
  enum class kind : std::uint8_t { nothing, integer, text, list, error };
  kind is = kind::nothing;
  std::int64_t integer = 0;
  std::string text;  // of text and error
  std::vector<store_value> list;
};

class store_link {
 public:
  virtual ~store_link() = default;

  // Resolves, connects and shakes hands. The error is a sentence. `given_up` outlives the link.
  static std::expected<std::unique_ptr<store_link>, std::string> dial(const store_address&,
                                                                      link_time deadline,
                                                                      const std::atomic<bool>& given_up);

  // Writes commands, one per argument list, and reads as many replies.
  virtual std::expected<std::vector<store_value>, std::string> exchange(
      std::span<const std::vector<std::string>> commands, link_time deadline) = 0;
};

}  // namespace weir::gateway::shared
