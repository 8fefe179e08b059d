#include "engine/text/tokenizer_files.hpp"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "engine/text/bpe_tokenizer.hpp"
#include "engine/text/token_table.hpp"

namespace weir::engine::text {
namespace {

constexpr auto k_base64_values = [] {
  std::array<std::int8_t, 256> values{};
  values.fill(-1);
  constexpr std::string_view k_alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (std::size_t i = 0; i < k_alphabet.size(); ++i) {
    values[static_cast<std::uint8_t>(k_alphabet[i])] = static_cast<std::int8_t>(i);
  }
  return values;
}();

// Canonical base64 only: padded, and with zero bits where the last character has some to spare.
std::optional<std::string> decode_base64(std::string_view in) {
  if (in.empty() || in.size() % 4 != 0) return std::nullopt;
  const std::size_t padding = in.ends_with("==") ? 2 : in.ends_with('=') ? 1 : 0;
  std::string out;
  std::uint32_t bits = 0;
  int bit_count = 0;
  for (const char c : in.substr(0, in.size() - padding)) {
    const int value = k_base64_values[static_cast<std::uint8_t>(c)];
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    bit_count += 6;
    if (bit_count >= 8) {
      bit_count -= 8;
      out.push_back(static_cast<char>(bits >> bit_count & 0xFF));
    }
  }
  if ((bits & ((1U << bit_count) - 1)) != 0) return std::nullopt;
  return out;
}

std::optional<std::int32_t> parse_id(std::string_view digits) {
  std::int32_t value = 0;
  if (digits.empty() || digits[0] == '-' || (digits.size() > 1 && digits[0] == '0')) return std::nullopt;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (code != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

std::unexpected<error> bad_file(std::string_view name, std::string_view what) {
  return fail(errc::bad_model, std::string(name) + std::string(what));
}

std::unexpected<error> bad_config(std::string_view what) {
  return fail(errc::bad_model, "tokenizer_config.json: " + std::string(what));
}

result<void> add_special(std::string_view key, const simdjson::dom::element& entry, std::int32_t base,
                         std::vector<std::string>& specials) {
  const std::string where = "added_tokens_decoder." + std::string(key.substr(0, 32)) + ": ";
  const auto id = parse_id(key);
  if (!id || *id < base || *id - base >= k_specials_max) {
    return bad_config(where + "the id must be one of the " + std::to_string(k_specials_max) + " from " +
                      std::to_string(base));
  }
  std::string_view content;
  if (entry["content"].get(content) != simdjson::SUCCESS || content.empty() ||
      content.size() > k_special_bytes_max) {
    return bad_config(where + "content must be a string of 1 to " + std::to_string(k_special_bytes_max) +
                      " bytes");
  }
  const auto at = static_cast<std::size_t>(*id - base);
  if (at >= specials.size()) specials.resize(at + 1);
  if (!specials[at].empty()) return bad_config(where + "listed twice");
  specials[at] = content;
  return {};
}

}  // namespace

result<std::vector<std::string>> parse_rank_file(std::string_view file, std::string_view name) {
  const auto bad_line = [name](std::size_t line, const std::string& what) {
    return bad_file(name, " line " + std::to_string(line) + ": " + what);
  };
  if (file.size() > k_rank_file_bytes_max) {
    return bad_file(name, " is larger than " + std::to_string(k_rank_file_bytes_max) + " bytes");
  }
  if (file.ends_with('\n')) file.remove_suffix(1);
  const auto lines = static_cast<std::size_t>(std::count(file.begin(), file.end(), '\n')) + 1;
  if (lines > static_cast<std::size_t>(k_tokens_max)) {
    return bad_file(name, " has more than " + std::to_string(k_tokens_max) + " lines");
  }
  std::vector<std::string> tokens(lines);
  for (std::size_t number = 1; number <= lines; ++number) {
    const std::string_view line = file.substr(0, file.find('\n'));
    file.remove_prefix(std::min(file.size(), line.size() + 1));
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos)
      return bad_line(number, "expected a base64 token, a space and a rank");
    if (space > k_token_bytes_max * 4 / 3 + 4) return bad_line(number, "the token is too long");
    auto token = decode_base64(line.substr(0, space));
    if (!token) return bad_line(number, "the token is not base64");
    const auto rank = parse_id(line.substr(space + 1));
    if (!rank || static_cast<std::size_t>(*rank) >= lines) {
      return bad_line(number, "the rank must be a number below the count of lines, " + std::to_string(lines));
    }
    if (!tokens[*rank].empty()) return bad_line(number, "rank " + std::to_string(*rank) + " is there twice");
    tokens[*rank] = std::move(*token);
  }
  return tokens;
}

result<std::vector<std::string>> parse_tokenizer_config(std::string_view file, std::int32_t base) {
  if (file.size() > k_config_file_bytes_max) {
    return bad_config("larger than " + std::to_string(k_config_file_bytes_max) + " bytes");
  }
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (const auto code = parser.parse(file.data(), file.size()).get(root); code != simdjson::SUCCESS) {
    return bad_config(simdjson::error_message(code));
  }
  simdjson::dom::object entries;
  if (root["added_tokens_decoder"].get(entries) != simdjson::SUCCESS) {
    return bad_config("added_tokens_decoder must be an object");
  }
  std::vector<std::string> specials(k_reserved_specials);
  for (const auto& [key, entry] : entries) {
    if (auto ok = add_special(key, entry, base, specials); !ok) return std::unexpected(ok.error());
  }
  for (std::size_t i = 0; i < specials.size(); ++i) {
    if (specials[i].empty()) {
      specials[i] = "<|reserved_token_" + std::to_string(base + static_cast<std::int32_t>(i)) + "|>";
    }
  }
  auto sorted = specials;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) return bad_config("two special tokens are both " + *twice);
  return specials;
}

std::span<const named_encoding> named_encodings() {
  static const named_encoding encodings[] = {
      {"cl100k_base",
       split_pattern::cl100k,
       {{"<|endoftext|>", 100257},
        {"<|fim_prefix|>", 100258},
        {"<|fim_middle|>", 100259},
        {"<|fim_suffix|>", 100260},
        {"<|endofprompt|>", 100276}}},
      {"o200k_base", split_pattern::o200k, {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}}},
  };
  return encodings;
}

result<std::shared_ptr<const tokenizer>> make_named_tokenizer(std::string_view rank_file,
                                                              const named_encoding& encoding) {
  const std::string name = std::string(encoding.name) + ".tiktoken";
  const auto tokens = parse_rank_file(rank_file, name);
  if (!tokens) return std::unexpected(tokens.error());
  auto model = bpe_model::of_ranks(*tokens);
  if (!model) return bad_file(name, ": " + model.error().detail);
  for (const added_token& special : encoding.specials) {
    if (special.id < model->size()) return bad_file(name, " has more ranks than the published one");
  }
  return make_bpe_tokenizer(
      {.model = std::move(*model), .pattern = encoding.pattern, .added = encoding.specials});
}

result<std::shared_ptr<const tokenizer>> make_tokenizer(std::string_view rank_file,
                                                        std::string_view config_file) {
  const auto tokens = parse_rank_file(rank_file);
  if (!tokens) return std::unexpected(tokens.error());
  auto model = bpe_model::of_ranks(*tokens);
  if (!model) return bad_file("tiktoken.model", ": " + model.error().detail);
  const auto specials = parse_tokenizer_config(config_file, model->size());
  if (!specials) return std::unexpected(specials.error());
  std::vector<added_token> added;
  for (const std::string& content : *specials) {
    added.push_back({content, model->size() + static_cast<std::int32_t>(added.size())});
  }
  return make_bpe_tokenizer({.model = std::move(*model),
                             .pattern = split_pattern::kimi,
                             .added = std::move(added),
                             .published_cuts = true});
}

}  // namespace weir::engine::text
