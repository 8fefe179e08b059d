// The prompt as a mock replica sees it: its tokens and the chain of blocks that they make.
//
// The rule, fixed so that others can foresee it: the canonical text of a chat is, for each message, its role,
// a line feed, its text, a line feed; of a completion it is the prompt. Every 4 bytes of it are one token,
// the number that they are in little-endian order without its top bit; 1 to 3 bytes at the end are one more
// token. A prompt given as token ids is taken as it is. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir::loadtest::mock {

void append_message(std::string_view role, std::string_view text, std::string& canonical);
void append_tokens(std::string_view canonical, std::vector<std::int32_t>& tokens);

// Ids of the whole blocks of all tokens but the last, which always runs; each id stands for its block, all
// before it and the salt. REQUIRES: block_tokens > 0.
std::vector<std::uint64_t> block_chain(std::span<const std::int32_t> tokens, std::size_t block_tokens,
                                       std::string_view salt);

}  // namespace weir::loadtest::mock
