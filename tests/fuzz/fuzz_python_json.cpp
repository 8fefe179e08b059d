// Tool declarations are JSON from clients: what is accepted must come out as JSON that is accepted again,
// unchanged.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "engine/text/python_json.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weir::engine::text;
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const auto once = to_python_json(json);
  const auto sorted = to_python_json(json, {.sorted = true, .spaced = true});
  const auto members = to_python_members(json);
  if (once.has_value() != sorted.has_value()) std::abort();
  if (members.has_value() != (once && !once->is_array)) std::abort();
  // Python writes numbers past the largest double as a word that is no JSON.
  if (!once || once->text.find("Infinity") != std::string::npos) return 0;
  const auto twice = to_python_json(once->text);
  if (!twice || twice->text != once->text) std::abort();
  return 0;
}
