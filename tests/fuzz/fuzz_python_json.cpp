// Tool declarations are JSON from clients: what is accepted must come out as JSON that is accepted again,
// unchanged.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "engine/text/python_json.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using weir::engine::text::to_python_json;
  const auto once = to_python_json({reinterpret_cast<const char*>(data), size});
  // Python writes numbers past the largest double as a word that is no JSON.
  if (!once || once->text.find("Infinity") != std::string::npos) return 0;
  const auto twice = to_python_json(once->text);
  if (!twice || twice->text != once->text) std::abort();
  return 0;
}
