#include "engine/text/hugging_face_file.hpp"

#include <simdjson.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/text/bpe_tokenizer.hpp"
#include "engine/text/byte_alphabet.hpp"
#include "engine/text/hash_bytes.hpp"
#include "engine/text/tokenizer_files.hpp"

namespace weir::engine::text {
namespace {

namespace dom = simdjson::dom;

std::unexpected<error> malformed(std::string what) {
  return fail(errc::bad_model, "tokenizer.json: " + std::move(what));
}
std::unexpected<error> unsupported(std::string what) {
  return fail(errc::unsupported, "tokenizer.json: " + std::move(what) + " is not supported");
}

std::string_view text_of(dom::element object, std::string_view key) {
  std::string_view value;
  return object[key].get(value) == simdjson::SUCCESS ? value : std::string_view{};
}

bool is_true(dom::element object, std::string_view key) {
  bool value = false;
  return object[key].get(value) == simdjson::SUCCESS && value;
}

bool is_absent(dom::element object, std::string_view key) {
  dom::element value;
  return object[key].get(value) != simdjson::SUCCESS || value.is_null();
}

std::string shown(std::string_view text) {
  return "\"" + std::string(text.substr(0, 64)) + "\"";
}

// Whether it is form C; nothing otherwise.
result<bool> read_normalizer(dom::element root) {
  if (is_absent(root, "normalizer")) return false;
  const dom::element normalizer = root["normalizer"];
  dom::array parts;
  const std::string_view type = text_of(normalizer, "type");
  if (type == "Sequence" && normalizer["normalizers"].get(parts) == simdjson::SUCCESS && parts.size() == 0) {
    return false;
  }
  if (type == "NFC") return true;
  return unsupported("normalizer " + shown(type));
}

// The regular expression of a Split whose matches and what lies between them become pieces.
result<std::string> read_split(dom::element split) {
  const std::string_view type = text_of(split, "type");
  if (type != "Split") return unsupported("pre_tokenizer " + shown(type));
  std::string_view regex;
  if (split["pattern"]["Regex"].get(regex) != simdjson::SUCCESS)
    return unsupported("a Split without a Regex");
  const std::string_view behavior = text_of(split, "behavior");
  const bool inverted = is_true(split, "invert");
  // A pattern that matches everywhere leaves nothing between its matches.
  if (behavior == "Isolated" || (behavior == "Removed" && inverted)) return std::string(regex);
  return unsupported("a Split that is " + shown(behavior));
}

result<split_pattern> read_pattern(dom::element root) {
  if (is_absent(root, "pre_tokenizer")) return unsupported("a tokenizer without pre_tokenizer");
  std::vector<dom::element> rules;
  const dom::element whole = root["pre_tokenizer"];
  if (dom::array list; whole["pretokenizers"].get(list) == simdjson::SUCCESS) {
    for (const dom::element rule : list) rules.push_back(rule);
  } else {
    rules.push_back(whole);
  }
  if (rules.empty() || text_of(rules.back(), "type") != "ByteLevel") {
    return unsupported("a pre_tokenizer that does not end with ByteLevel");
  }
  if (is_true(rules.back(), "add_prefix_space")) return unsupported("add_prefix_space");
  bool own_regex = true;
  if (rules.back()["use_regex"].get(own_regex) != simdjson::SUCCESS) own_regex = true;
  if (own_regex && rules.size() == 1) return split_pattern::gpt2;
  if (own_regex) return unsupported("a Split before ByteLevel's own pattern");
  std::string regexes;
  for (std::size_t i = 0; i + 1 < rules.size(); ++i) {
    const auto regex = read_split(rules[i]);
    if (!regex) return std::unexpected(regex.error());
    regexes += (i > 0 ? "\n" : "") + *regex;
  }
  const auto known = recognise_pattern(regexes);
  if (!known) return unsupported("the pre_tokenizer pattern " + shown(regexes));
  return *known;
}

result<std::vector<added_token>> read_added(dom::element root, bool normalizes) {
  std::vector<added_token> out;
  if (is_absent(root, "added_tokens")) return out;
  dom::array list;
  if (root["added_tokens"].get(list) != simdjson::SUCCESS) return malformed("added_tokens must be an array");
  for (const dom::element entry : list) {
    const std::string_view content = text_of(entry, "content");
    std::int64_t id = -1;
    if (entry["id"].get(id) != simdjson::SUCCESS || id < 0 || id >= k_tokens_max + k_specials_max) {
      return malformed("added token " + shown(content) + ": id must be a number below " +
                       std::to_string(k_tokens_max + k_specials_max));
    }
    if (content.empty() || content.size() > k_special_bytes_max) {
      return malformed("added token " + std::to_string(id) + ": content must have 1 to " +
                       std::to_string(k_special_bytes_max) + " bytes");
    }
    for (const std::string_view flag : {"single_word", "lstrip", "rstrip"}) {
      if (is_true(entry, flag))
        return unsupported("added token " + shown(content) + ": " + std::string(flag));
    }
    if (normalizes && is_true(entry, "normalized")) {
      return unsupported("added token " + shown(content) + ": normalized");
    }
    out.push_back({std::string(content), static_cast<std::int32_t>(id), is_true(entry, "special")});
    if (out.size() > static_cast<std::size_t>(k_specials_max)) return malformed("too many added tokens");
  }
  const auto repeats = [&out](auto less) {
    std::sort(out.begin(), out.end(), less);
    return std::adjacent_find(out.begin(), out.end(),
                              [&](const auto& a, const auto& b) { return !less(a, b); }) != out.end();
  };
  if (repeats([](const auto& a, const auto& b) { return a.content < b.content; }) ||
      repeats([](const auto& a, const auto& b) { return a.id < b.id; })) {
    return malformed("two added tokens have the same id or content");
  }
  return out;
}

struct vocabulary {
  std::vector<std::string> tokens;  // [ids] bytes; empty where text never yields the id
  std::unordered_map<std::string_view, std::int32_t> ids;  // as written; views live as long as the document
};

result<vocabulary> read_vocabulary(dom::element model) {
  dom::object entries;
  if (model["vocab"].get(entries) != simdjson::SUCCESS) return malformed("model.vocab must be an object");
  vocabulary out;
  out.ids.reserve(entries.size());
  std::vector<bool> seen;
  for (const auto& [written, value] : entries) {
    std::int64_t id = -1;
    if (value.get(id) != simdjson::SUCCESS || id < 0 || id >= k_tokens_max) {
      return malformed("model.vocab " + shown(written) + ": id must be a number below " +
                       std::to_string(k_tokens_max));
    }
    const auto at = static_cast<std::size_t>(id);
    if (at >= out.tokens.size()) {
      out.tokens.resize(at + 1);
      seen.resize(at + 1);
    }
    if (seen[at]) return malformed("model.vocab has two tokens with id " + std::to_string(id));
    seen[at] = true;
    if (!out.ids.emplace(written, static_cast<std::int32_t>(id)).second) {
      return malformed("model.vocab has " + shown(written) + " twice");
    }
    if (auto bytes = bytes_of_alphabet(written)) out.tokens[at] = std::move(*bytes);
  }
  return out;
}

// "left right" or ["left", "right"].
bool read_pair(dom::element merge, std::string_view& left, std::string_view& right) {
  std::string_view line;
  if (merge.get(line) == simdjson::SUCCESS) {
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos) return false;
    left = line.substr(0, space);
    right = line.substr(space + 1);
    return true;
  }
  dom::array pair;
  return merge.get(pair) == simdjson::SUCCESS && pair.size() == 2 &&
         pair.at(0).get(left) == simdjson::SUCCESS && pair.at(1).get(right) == simdjson::SUCCESS;
}

result<std::vector<merge_rule>> read_merges(dom::element model, const vocabulary& vocab) {
  dom::array list;
  if (model["merges"].get(list) != simdjson::SUCCESS) return malformed("model.merges must be an array");
  std::vector<merge_rule> out;
  std::string joined;
  for (const dom::element merge : list) {
    const auto where = [&out] { return "model.merges[" + std::to_string(out.size()) + "]: "; };
    std::string_view left, right;
    if (!read_pair(merge, left, right)) return malformed(where() + "must be two tokens");
    joined.assign(left).append(right);
    const auto a = vocab.ids.find(left), b = vocab.ids.find(right), both = vocab.ids.find(joined);
    if (a == vocab.ids.end() || b == vocab.ids.end() || both == vocab.ids.end()) {
      return malformed(where() + shown(left) + ", " + shown(right) + " or both joined is no token");
    }
    out.push_back({a->second, b->second, both->second});
    if (out.size() > k_merges_max) return malformed("more than " + std::to_string(k_merges_max) + " merges");
  }
  return out;
}

result<void> check_model(dom::element model) {
  const std::string_view type = text_of(model, "type");
  if (type != "BPE" && !type.empty()) return unsupported("model " + shown(type));
  for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!text_of(model, key).empty()) return unsupported("model." + std::string(key));
  }
  if (is_true(model, "byte_fallback")) return unsupported("model.byte_fallback");
  if (double dropout = 0; model["dropout"].get(dropout) == simdjson::SUCCESS && dropout != 0) {
    return unsupported("model.dropout");
  }
  return {};
}

}  // namespace

result<std::shared_ptr<const tokenizer>> make_hugging_face_tokenizer(std::string_view tokenizer_json) {
  if (tokenizer_json.size() > k_tokenizer_json_bytes_max) {
    return malformed("larger than " + std::to_string(k_tokenizer_json_bytes_max) + " bytes");
  }
  dom::parser parser;
  dom::element root, model;
  if (const auto code = parser.parse(tokenizer_json.data(), tokenizer_json.size()).get(root);
      code != simdjson::SUCCESS) {
    return malformed(simdjson::error_message(code));
  }
  if (root["model"].get(model) != simdjson::SUCCESS) return malformed("model is missing");
  if (auto ok = check_model(model); !ok) return std::unexpected(ok.error());
  const auto nfc = read_normalizer(root);
  if (!nfc) return std::unexpected(nfc.error());
  const auto pattern = read_pattern(root);
  if (!pattern) return std::unexpected(pattern.error());
  auto added = read_added(root, *nfc);
  if (!added) return std::unexpected(added.error());
  auto vocab = read_vocabulary(model);
  if (!vocab) return std::unexpected(vocab.error());
  const auto merges = read_merges(model, *vocab);
  if (!merges) return std::unexpected(merges.error());
  for (const added_token& token : *added) {
    const auto at = static_cast<std::size_t>(token.id);
    if (at < vocab->tokens.size()) vocab->tokens[at].clear();
  }
  const bool ignore_merges = is_true(model, "ignore_merges");
  auto bpe = bpe_model::of_merges(vocab->tokens, *merges, ignore_merges);
  if (!bpe) return malformed("model: " + bpe.error().detail);
  const std::string_view rules(reinterpret_cast<const char*>(merges->data()),
                               merges->size() * sizeof(merge_rule));
  return make_bpe_tokenizer(
      {.model = std::move(*bpe),
       .pattern = *pattern,
       .added = std::move(*added),
       .nfc = *nfc,
       .fingerprint_seed = hash_bytes(rules, (ignore_merges ? 2 : 0) + (*nfc ? 1 : 0))});
}

}  // namespace weir::engine::text
