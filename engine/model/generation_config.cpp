#include "engine/model/generation_config.hpp"

#include <simdjson.h>

#include <limits>

namespace weir::engine::model {

namespace {

constexpr std::uintmax_t k_file_bytes_max = 1 << 20;

// Absent and null leave `out`; anything but a number in [min, max] is an error naming the key.
result<void> read_number(simdjson::dom::object object, const char* key, double min, double max, double& out) {
  simdjson::dom::element value;
  if (object.at_key(key).get(value) || value.is_null()) return {};
  double number = 0;
  if (value.get(number) || !(number >= min && number <= max)) {
    return fail(errc::bad_model, std::string("generation_config.json: '") + key + "' is out of range");
  }
  out = number;
  return {};
}

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
  double temperature = 1;
  double top_p = 1;
  double top_k = 0;
  for (const auto& read : {read_number(root, "temperature", 0, 2, temperature), read_number(root, "top_p", 0, 1, top_p),
                           read_number(root, "top_k", -1, std::numeric_limits<std::int32_t>::max(), top_k)}) {
    if (!read) return std::unexpected(read.error());
  }
  return generation_config{static_cast<float>(temperature), static_cast<float>(top_p),
                           top_k > 0 ? static_cast<std::int32_t>(top_k) : 0};
}

}  // namespace weir::engine::model
