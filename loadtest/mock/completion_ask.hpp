// What a mock replica reads out of a completion request; every other field is let pass, as engines do.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <vector>

namespace weir::loadtest::mock {

struct completion_ask {
  bool chat = true;  // else /v1/completions
  bool stream = false;
  bool include_usage = false;
  std::optional<std::int64_t> max_tokens;
  std::string model;
  std::string fault;               // "mock_fault"
  std::string text;                // of the last user message or the prompt, when asked for
  std::int64_t prompt_tokens = 0;  // the body's bytes / 4, at least 1; of `prompt` when that was asked for

  std::vector<std::int32_t> prompt;         // its tokens, when asked for: see prompt_tokens.hpp
  std::string cache_salt;                   // "cache_salt"
  std::vector<std::int64_t> checkpoint_at;  // "weir_checkpoint_at": tokens, ascending or not
};

inline constexpr std::size_t k_hints_max = 1'024;

struct ask_wishes {
  bool text = false;
  bool prompt = false;
};

// `body` needs simdjson's padding as spare capacity. The error is a sentence.
std::expected<completion_ask, std::string> parse_completion(simdjson::ondemand::parser& parser,
                                                            const std::string& body, bool chat,
                                                            const ask_wishes& wishes);

}  // namespace weir::loadtest::mock
