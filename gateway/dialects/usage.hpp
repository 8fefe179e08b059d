// Token counts in the two ways of counting: a chat API's prompt_tokens hold those read from and written to a
// cache, a messages API's input_tokens do not. Values; any thread.
#pragma once

#include <simdjson.h>

#include <cstdint>

#include "gateway/api/response_writer.hpp"
#include "gateway/dialects/json_writer.hpp"

namespace weir::gateway::dialects {

struct usage_parts {
  std::int64_t fresh = 0;        // of the prompt: neither read from nor written to a cache
  std::int64_t cache_read = -1;  // -1: not told
  std::int64_t cache_write = -1;
  std::int64_t output = 0;
  std::int64_t thinking = -1;  // of `output`

  std::int64_t prompt() const noexcept;
  api::token_usage counts() const noexcept;
};

// Of an object `usage`; counts that it does not hold stay (a stream tells them bit by bit).
void read_messages_usage(simdjson::dom::object usage, usage_parts& out);
usage_parts read_chat_usage(simdjson::dom::object usage);

// The value of "usage".
void write_chat_usage(json_writer& out, const usage_parts& usage);
void write_messages_usage(json_writer& out, const usage_parts& usage);

}  // namespace weir::gateway::dialects
