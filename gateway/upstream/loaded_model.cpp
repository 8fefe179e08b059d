#include "gateway/upstream/loaded_model.hpp"

#include <utility>

namespace weir::gateway::upstream {

engine::result<loaded_model> load_model(const engine::engine_config& config) {
  auto tokenizer = engine::text::tokenizer::load(config.model_dir);
  if (!tokenizer) return std::unexpected(tokenizer.error());
  auto chat = engine::text::chat_format::detect(*tokenizer);
  if (!chat) return std::unexpected(chat.error());
  const auto defaults = engine::model::load_generation_config(config.model_dir);
  if (!defaults) return std::unexpected(defaults.error());
  auto engine = engine::engine::open(config);
  if (!engine) return std::unexpected(engine.error());
  auto words = engine::structure::vocabulary::build(*tokenizer);
  text_tools tools{std::move(*tokenizer), std::move(*chat), words ? std::move(*words) : nullptr};
  return loaded_model{std::move(*engine), std::move(tools), *defaults};
}

}  // namespace weir::gateway::upstream
