#include "gateway/api/logprobs_json.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>

#include "gateway/api/json.hpp"

namespace weir::gateway::api {

namespace {

// JSON has no infinity; OpenAI writes -9999 for a token that cannot occur.
constexpr float k_logprob_floor = -9999.0F;

void append_entry(std::string& out, const std::string& bytes, float logprob) {
  out += R"({"token":)";
  append_quoted(out, valid_utf8(bytes));
  out += fmt::format(R"(,"logprob":{},"bytes":[)", std::max(logprob, k_logprob_floor));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    out += fmt::format("{}{}", i > 0 ? "," : "", static_cast<unsigned char>(bytes[i]));
  }
  out += ']';
}

std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

std::string valid_utf8(std::string_view bytes) {
  if (simdjson::validate_utf8(bytes.data(), bytes.size())) return std::string(bytes);
  std::string out;
  for (std::size_t i = 0; i < bytes.size();) {
    std::size_t length = std::min<std::size_t>(4, bytes.size() - i);
    while (length > 0 && !simdjson::validate_utf8(bytes.data() + i, length)) --length;
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      ++i;
      continue;
    }
    out.append(bytes, i, length);
    i += length;
  }
  return out;
}

std::string logprobs_json(const std::vector<token_detail>& tokens) {
  if (tokens.empty()) return "null";
  std::string out = R"({"content":[)";
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) out += ',';
    append_entry(out, tokens[i].bytes, tokens[i].logprob);
    out += R"(,"top_logprobs":[)";
    for (std::size_t j = 0; j < tokens[i].top.size(); ++j) {
      if (j > 0) out += ',';
      append_entry(out, tokens[i].top[j].bytes, tokens[i].top[j].logprob);
      out += '}';
    }
    out += "]}";
  }
  out += R"(],"refusal":null})";
  return out;
}

std::string completion_logprobs_json(const std::vector<token_detail>& tokens, std::size_t& text_offset) {
  if (tokens.empty()) return "null";
  std::string texts;
  std::string values;
  std::string tops;
  std::string offsets;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::string_view comma = i > 0 ? "," : "";
    const std::string text = valid_utf8(tokens[i].bytes);
    texts += comma;
    append_quoted(texts, text);
    values += fmt::format("{}{}", comma, std::max(tokens[i].logprob, k_logprob_floor));
    offsets += fmt::format("{}{}", comma, text_offset);
    text_offset += count_characters(text);
    tops += comma;
    tops += '{';
    // Alternatives that render to one text would be one key twice; the first, likelier one stays.
    std::vector<std::string> seen;
    for (const auto& alternative : tokens[i].top) {
      std::string key = valid_utf8(alternative.bytes);
      if (std::find(seen.begin(), seen.end(), key) != seen.end()) continue;
      if (!seen.empty()) tops += ',';
      append_quoted(tops, key);
      tops += fmt::format(":{}", std::max(alternative.logprob, k_logprob_floor));
      seen.push_back(std::move(key));
    }
    tops += '}';
  }
  return fmt::format(R"({{"tokens":[{}],"token_logprobs":[{}],"top_logprobs":[{}],"text_offset":[{}]}})",
                     texts, values, tops, offsets);
}

}  // namespace weir::gateway::api
