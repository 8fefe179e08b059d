// The characters by which byte-level BPE files write bytes: printable bytes of Latin-1 as themselves, the
// others as U+0100 and on. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weir::engine::text {

// The bytes that `written` stands for, or nothing where a character is not of that alphabet.
std::optional<std::string> bytes_of_alphabet(std::string_view written);

}  // namespace weir::engine::text
