// What a mock replica reads out of a completion request; every other field is let pass, as engines do.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <expected>
#include <optional>
#include <string>

namespace weir::loadtest::mock {

struct completion_ask {
  bool chat = true;  // else /v1/completions
  bool stream = false;
  bool include_usage = false;
  std::optional<std::int64_t> max_tokens;
  std::string model;
  std::string fault;               // "mock_fault"
  std::string text;                // of the last user message or the prompt, when asked for
  std::int64_t prompt_tokens = 0;  // the body's bytes / 4, at least 1
};

// `body` needs simdjson's padding as spare capacity. The error is a sentence.
std::expected<completion_ask, std::string> parse_completion(simdjson::ondemand::parser& parser,
                                                            const std::string& body, bool chat,
                                                            bool want_text);

}  // namespace weir::loadtest::mock
