// The loads that a comparison is made of, as a table, and the bytes of their requests. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace weir::loadtest::bench {

inline constexpr std::int64_t k_stream_tokens = 64;

enum class variation : std::uint8_t {
  none,  // every request is the same
  tail,  // the last 200 bytes of the prompt differ
  all,   // the whole prompt differs
};

struct scenario {
  std::string_view name;
  int connections;
  std::size_t body_bytes;
  variation differs;
  bool stream;
  bool paced;  // by a mock that waits between tokens: gaps are measured, not whole answers
  std::string_view what;
};

std::span<const scenario> scenario_table();
const scenario* find_scenario(std::string_view name);

// The requests of one connection; `seed` sets it apart from the others.
class request_source final {
 public:
  request_source(const scenario& of, std::string_view host, std::string_view model, std::string_view api_key,
                 std::uint64_t seed);

  const std::string& bytes() const noexcept { return bytes_; }
  void vary();  // bytes() become those of the next request

 private:
  std::string bytes_;
  std::size_t varied_start_ = 0;
  std::size_t varied_size_ = 0;
  std::uint64_t state_;
};

}  // namespace weir::loadtest::bench
