// One step of one choice of a generated answer, between the engine's tokens and the JSON of an endpoint.
// Values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/text/chat_format.hpp"

namespace weir::gateway::api {

struct token_alternative {
  std::string bytes;
  float logprob = 0;
};

struct token_detail {
  std::string bytes;  // may be part of a character
  float logprob = 0;
  std::vector<token_alternative> top;  // best first
};

enum class finish_kind { stop, length, tool_calls };

struct choice_event {
  int choice = 0;
  std::vector<engine::text::chat_delta> deltas;  // completions use content only
  std::vector<token_detail> tokens;              // filled where logprobs were asked for
  std::optional<finish_kind> finish;             // the choice's last event
};

constexpr std::string_view to_text(finish_kind kind) noexcept {
  switch (kind) {
    case finish_kind::stop:
      return "stop";
    case finish_kind::length:
      return "length";
    case finish_kind::tool_calls:
      return "tool_calls";
  }
  return "stop";
}

}  // namespace weir::gateway::api
