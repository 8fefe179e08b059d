// Text as HTML shows it, in an element or a quoted attribute. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

namespace weir::gateway {

// Whatever it holds; control characters but LF and tab become U+FFFD.
std::string escaped(std::string_view text);

}  // namespace weir::gateway
