// Everything that answering with an embedded checkpoint needs, loaded together: weights, tokenizer, chat
// format and the sampling values that its publisher recommends. A value of shared, immutable parts; any
// thread.
#pragma once

#include <memory>

#include "engine/engine.hpp"
#include "engine/model/generation_config.hpp"
#include "engine/structure/vocabulary.hpp"
#include "engine/text/chat_format.hpp"
#include "engine/text/tokenizer.hpp"

namespace weir::gateway::upstream {

// What text processing needs besides the engine.
struct text_tools {
  std::shared_ptr<const engine::text::tokenizer> tokenizer;
  std::shared_ptr<const engine::text::chat_format> chat;  // null for plain completions
  bool thinking = true;                                   // of the prompt that a chat answers
  std::shared_ptr<const engine::structure::vocabulary>
      words;  // null where answers cannot be bound to a schema
};

struct loaded_model {
  std::shared_ptr<engine::engine> engine;
  text_tools tools;
  engine::model::generation_config defaults;
};

// Blocks for the load. The small files come first, so that most mistakes show at once.
engine::result<loaded_model> load_model(const engine::engine_config& config);

}  // namespace weir::gateway::upstream
