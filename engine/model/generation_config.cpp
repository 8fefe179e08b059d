#include "engine/model/generation_config.hpp"

#include <simdjson.h>

#include <algorithm>
#include <limits>

#include "engine/model/json_fields.hpp"

namespace weir::engine::model {

namespace {

constexpr std::uintmax_t k_file_bytes_max = 1 << 20;

}  // namespace

result<generation_config> load_generation_config(const std::filesystem::path& model_dir) {
  const auto path = model_dir / "generation_config.json";
  std::error_code ec;
  const auto bytes = std::filesystem::file_size(path, ec);
  if (ec) return generation_config{};
  if (bytes > k_file_bytes_max) return fail(errc::bad_model, "generation_config.json is larger than 1 MiB");
  simdjson::dom::parser parser;
  simdjson::dom::object root;
  if (parser.load(path.string()).get_object().get(root)) {
    return fail(errc::bad_model, "generation_config.json is not a JSON object");
  }
  json_fields in(root, "generation_config.json");
  generation_config out;
  out.temperature = static_cast<float>(in.number("temperature", 0, 2, 1));
  out.top_p = static_cast<float>(in.number("top_p", 0, 1, 1));
  out.top_k = std::max(0, in.integer("top_k", -1, std::numeric_limits<std::int32_t>::max(), 0));
  if (in.fault()) return std::unexpected(*in.fault());
  return out;
}

}  // namespace weir::engine::model
