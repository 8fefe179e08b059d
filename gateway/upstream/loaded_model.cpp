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
  const std::int32_t known = (*engine)->info().vocab_size;
  if ((*tokenizer)->vocab_size() > known) {
    return engine::fail(engine::errc::bad_model, config.model_dir.string() + ": the tokenizer has " +
                                                     std::to_string((*tokenizer)->vocab_size()) +
                                                     " ids, config.json says " + std::to_string(known) +
                                                     " (vocab_size)");
  }
  auto words = engine::structure::vocabulary::build(*tokenizer);
  text_tools tools{std::move(*tokenizer), std::move(*chat), words ? std::move(*words) : nullptr};
  return loaded_model{std::move(*engine), std::move(tools), *defaults};
}

}  // namespace weir::gateway::upstream
