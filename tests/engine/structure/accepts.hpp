// Texts against schemas, byte by byte through the automaton. For tests; one thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/structure/answer_grammar.hpp"
#include "engine/structure/automaton.hpp"

namespace weir::engine::structure {

class schema_under_test final {
 public:
  explicit schema_under_test(std::string_view schema) {
    auto made = compile_answer({.text = text_form::json_schema, .schema_json = std::string(schema)}, nullptr);
    if (!made) {
      refusal_ = made.error().detail;
      return;
    }
    rules_ = std::make_unique<answer_grammar>(std::move(*made));
    walked_ = std::make_unique<automaton>(rules_->rules, 0);
  }

  bool compiled() const { return rules_ != nullptr; }
  const std::string& refusal() const { return refusal_; }

  bool accepts(std::string_view text) {
    const place_id at = walk(text);
    return at != k_dead && walked_->is_complete(at);
  }
  // Some text that begins so is allowed.
  bool begins(std::string_view text) { return walk(text) != k_dead; }
  automaton& walked() { return *walked_; }

 private:
  place_id walk(std::string_view text) {
    place_id at = walked_->start();
    for (std::size_t i = 0; i < text.size() && at != k_dead; ++i) {
      at = walked_->step(at, static_cast<unsigned char>(text[i]));
    }
    return at;
  }

  std::string refusal_;
  std::unique_ptr<answer_grammar> rules_;
  std::unique_ptr<automaton> walked_;
};

}  // namespace weir::engine::structure
