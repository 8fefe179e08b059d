#include "engine/text/tokenizer.hpp"

#include <fstream>
#include <string>

#include "engine/text/hugging_face_file.hpp"
#include "engine/text/tokenizer_files.hpp"

namespace weir::engine::text {
namespace {

// Slices that a first-level cache holds together with their ids.
constexpr std::size_t k_slice_bytes = 8192;

bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

result<std::string> read_file(const std::filesystem::path& path, std::size_t bytes_max) {
  std::error_code ignored;
  // A pipe would hold us until somebody writes to it.
  if (is_there(path) && !std::filesystem::is_regular_file(path, ignored)) {
    return fail(errc::io, path.string() + " is not a regular file");
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail(errc::io, "cannot open " + path.string());
  in.seekg(0, std::ios::end);
  const auto size = static_cast<std::streamoff>(in.tellg());
  if (size < 0) return fail(errc::io, "cannot read " + path.string());
  if (static_cast<std::uintmax_t>(size) > bytes_max) {
    return fail(errc::bad_model, path.string() + " is larger than " + std::to_string(bytes_max) + " bytes");
  }
  std::string bytes(static_cast<std::size_t>(size), '\0');
  in.seekg(0);
  if (!in.read(bytes.data(), size)) return fail(errc::io, "cannot read " + path.string());
  return bytes;
}

result<std::shared_ptr<const tokenizer>> load_any(const std::filesystem::path& dir) {
  for (const named_encoding& encoding : named_encodings()) {
    const auto path = dir / (std::string(encoding.name) + ".tiktoken");
    if (!is_there(path)) continue;
    const auto file = read_file(path, k_rank_file_bytes_max);
    if (!file) return std::unexpected(file.error());
    return make_named_tokenizer(*file, encoding);
  }
  if (!is_there(dir / "tiktoken.model") && is_there(dir / "tokenizer.json")) {
    const auto file = read_file(dir / "tokenizer.json", k_tokenizer_json_bytes_max);
    if (!file) return std::unexpected(file.error());
    return make_hugging_face_tokenizer(*file);
  }
  const auto rank_file = read_file(dir / "tiktoken.model", k_rank_file_bytes_max);
  if (!rank_file) return std::unexpected(rank_file.error());
  const auto config_file = read_file(dir / "tokenizer_config.json", k_config_file_bytes_max);
  if (!config_file) return std::unexpected(config_file.error());
  return make_tokenizer(*rank_file, *config_file);
}

}  // namespace

void tokenizer::encode(std::string_view text, std::vector<std::int32_t>& out) const {
  text_state state;
  while (!text.empty()) {
    const std::size_t bytes = text.size() <= k_slice_bytes ? text.size() : safe_cut(text, k_slice_bytes);
    encode_slice(text.substr(0, bytes), state, out);
    text.remove_prefix(bytes);
  }
}

result<std::shared_ptr<const tokenizer>> tokenizer::load(const std::filesystem::path& dir) {
  auto made = load_any(dir);
  if (!made && made.error().code != errc::io) {
    return fail(made.error().code, dir.string() + ": " + made.error().detail);
  }
  return made;
}

}  // namespace weir::engine::text
