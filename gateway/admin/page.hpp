// One page of a list: ?limit=N&cursor=C, where C is what the page before it named as next. Pure; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "gateway/errc.hpp"

namespace weir::gateway::admin {

inline constexpr std::size_t k_page_default = 100;
inline constexpr std::size_t k_page_max = 1000;

struct page {
  std::size_t limit = k_page_default;
  std::string after;  // entries whose place is behind this; empty: from the first on
};

// Strict: a parameter that is not known, or twice there, is an error that names it.
result<page> read_page(std::string_view query);

// A cursor for a place. Opaque to clients.
std::string to_cursor(std::string_view place);

}  // namespace weir::gateway::admin
