#include "gateway/api/body_edit.hpp"

#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "gateway/api/json.hpp"

namespace weir::gateway::api {

namespace {

struct span {
  std::size_t begin = 0;
  std::size_t end = 0;
};

struct member {
  span key;  // with its quotes
  span value;
};

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// Walks the text of a JSON value that is known to be valid.
class scanner {
 public:
  scanner(std::string_view text, std::size_t at) : text_(text), at_(at) {}

  void skip_space() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  std::size_t at() const { return at_; }
  void step() { ++at_; }

  span string() {
    const std::size_t begin = at_++;
    while (at_ < text_.size()) {
      const void* const quote = std::memchr(text_.data() + at_, '"', text_.size() - at_);
      if (quote == nullptr) break;
      at_ = static_cast<std::size_t>(static_cast<const char*>(quote) - text_.data());
      std::size_t slashes = 0;
      while (text_[at_ - 1 - slashes] == '\\') ++slashes;
      ++at_;
      if (slashes % 2 == 0) return {begin, at_};
    }
    at_ = text_.size();
    return {begin, at_};
  }

  span value() {
    const std::size_t begin = at_;
    std::size_t depth = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"') {
        string();
      } else if (c == '{' || c == '[') {
        ++depth;
        ++at_;
        continue;
      } else if (c == '}' || c == ']') {
        if (depth == 0) break;
        --depth;
        ++at_;
      } else if (depth == 0 && (c == ',' || is_space(c))) {
        break;
      } else {
        ++at_;
        continue;
      }
      if (depth == 0) break;
    }
    return {begin, at_};
  }

 private:
  std::string_view text_;
  std::size_t at_;
};

std::string_view in(std::string_view text, span s) {
  return text.substr(s.begin, s.end - s.begin);
}

bool is_key(std::string_view quoted, std::string_view name) {
  const std::string_view plain = quoted.substr(1, quoted.size() - 2);
  if (plain.find('\\') == std::string_view::npos) return plain == name;
  simdjson::dom::parser parser;
  std::string_view read;
  return !parser.parse(quoted.data(), quoted.size()).get(read) && read == name;
}

// The member `name` of the object that begins at `at`.
std::optional<member> find_member(std::string_view text, std::size_t at, std::string_view name) {
  scanner scan(text, at);
  scan.skip_space();
  scan.step();  // '{'
  while (true) {
    scan.skip_space();
    if (scan.peek() != '"') return std::nullopt;
    member found;
    found.key = scan.string();
    scan.skip_space();
    scan.step();  // ':'
    scan.skip_space();
    found.value = scan.value();
    if (is_key(in(text, found.key), name)) return found;
    scan.skip_space();
    if (scan.peek() != ',') return std::nullopt;
    scan.step();
  }
}

struct edit {
  span where;
  std::string text;
};

// A new first member of the object that begins at `at`.
edit insert_first(std::string_view body, std::size_t at, std::string_view member_text) {
  scanner scan(body, at);
  scan.skip_space();
  scan.step();
  const std::size_t where = scan.at();
  scan.skip_space();
  const bool empty = scan.peek() == '}';
  return {{where, where}, std::string(member_text) + (empty ? "" : ",")};
}

std::optional<edit> usage_edit(std::string_view body) {
  const auto options = find_member(body, 0, "stream_options");
  if (!options) return insert_first(body, 0, R"("stream_options":{"include_usage":true})");
  if (in(body, options->value) == "null") return edit{options->value, R"({"include_usage":true})"};
  const auto wish = find_member(body, options->value.begin, "include_usage");
  if (!wish) return insert_first(body, options->value.begin, R"("include_usage":true)");
  if (in(body, wish->value) == "true") return std::nullopt;
  return edit{wish->value, "true"};
}

}  // namespace

std::optional<std::string> edit_body(std::string_view body, std::string_view model, bool ask_usage,
                                     std::span<const body_member> members) {
  std::vector<edit> edits;
  if (const auto found = model.empty() ? std::nullopt : find_member(body, 0, "model")) {
    std::string quoted;
    append_quoted(quoted, model);
    if (in(body, found->value) != quoted) edits.push_back({found->value, std::move(quoted)});
  }
  if (ask_usage) {
    if (auto wish = usage_edit(body)) edits.push_back(std::move(*wish));
  }
  for (const auto& m : members) {
    if (const auto found = find_member(body, 0, m.key)) {
      edits.push_back({found->value, m.json});
    } else {
      edits.push_back(insert_first(body, 0, '"' + m.key + "\":" + m.json));
    }
  }
  if (edits.empty()) return std::nullopt;
  std::stable_sort(edits.begin(), edits.end(),
                   [](const edit& a, const edit& b) { return a.where.begin < b.where.begin; });
  std::string out;
  out.reserve(body.size() + 64 + model.size());
  std::size_t done = 0;
  for (const auto& e : edits) {
    out.append(body.substr(done, e.where.begin - done)).append(e.text);
    done = e.where.end;
  }
  return out.append(body.substr(done));
}

}  // namespace weir::gateway::api
