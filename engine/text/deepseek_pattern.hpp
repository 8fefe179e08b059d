// The scanner of split_pattern::deepseek_v3. Pure; any thread.
#pragma once

#include <cstddef>
#include <string_view>

#include "engine/text/unicode_classes.hpp"

namespace weir::engine::text {

// As pretokenizer::first_piece_bytes.
std::size_t deepseek_piece_bytes(const unicode_classes& classes, std::string_view text);

}  // namespace weir::engine::text
