#include "engine/text/detokenizer.hpp"

#include <utility>

#include "engine/text/utf8.hpp"

namespace weir::engine::text {

std::string detokenizer::push(std::int32_t id) {
  held_ += tok_->token_bytes(id);
  std::string out;
  std::string_view rest = held_;
  while (!rest.empty()) {
    const utf8_step step = next_char(rest);
    if (step.status == utf8_status::incomplete) break;
    out += step.status == utf8_status::valid ? rest.substr(0, step.size) : k_replacement;
    rest.remove_prefix(step.size);
  }
  held_.erase(0, held_.size() - rest.size());
  return out;
}

std::string detokenizer::finish() {
  return std::exchange(held_, {}).empty() ? std::string() : std::string(k_replacement);
}

}  // namespace weir::engine::text
