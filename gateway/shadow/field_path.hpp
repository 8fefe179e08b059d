// Where in a JSON object a field stands: "user", "metadata", "messages[].name". Names are separated by dots;
// [] behind a name stands for every element of the list there. Values; any thread.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <vector>

namespace weir::gateway::shadow {

inline constexpr std::size_t k_path_steps_max = 16;
inline constexpr std::size_t k_path_bytes_max = 256;

struct path_step {
  std::string name;  // empty: every element of a list
  bool is_element() const noexcept { return name.empty(); }

  friend bool operator==(const path_step&, const path_step&) = default;
};
using field_path = std::vector<path_step>;

// The error is what is wrong with it, for the operator.
std::expected<field_path, std::string> parse_path(std::string_view text);

}  // namespace weir::gateway::shadow
