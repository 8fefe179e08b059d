#include "gateway/api/json_text.hpp"

#include <simdjson.h>

#include <algorithm>
#include <cstring>

namespace weir::gateway::api {

namespace {

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

  // Enters an object or array; false where something else begins.
  bool enter(char bracket) {
    skip_space();
    if (peek() != bracket) return false;
    step();
    skip_space();
    return true;
  }

  // Behind a value: whether another one follows.
  bool next() {
    skip_space();
    if (peek() != ',') return false;
    step();
    skip_space();
    return true;
  }

  text_span string() {
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

  text_span value() {
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

  text_member member() {
    text_member out;
    out.key = string();
    skip_space();
    step();  // ':'
    skip_space();
    out.value = value();
    return out;
  }

 private:
  std::string_view text_;
  std::size_t at_;
};

}  // namespace

bool is_key(std::string_view quoted, std::string_view name) {
  const std::string_view plain = quoted.substr(1, quoted.size() - 2);
  if (plain.find('\\') == std::string_view::npos) return plain == name;
  simdjson::dom::parser parser;
  std::string_view read;
  return !parser.parse(quoted.data(), quoted.size()).get(read) && read == name;
}

std::vector<text_member> members_of(std::string_view text, std::size_t at) {
  std::vector<text_member> out;
  scanner scan(text, at);
  if (!scan.enter('{') || scan.peek() != '"') return out;
  do {
    out.push_back(scan.member());
  } while (scan.next());
  return out;
}

std::vector<text_span> elements_of(std::string_view text, std::size_t at) {
  std::vector<text_span> out;
  scanner scan(text, at);
  if (!scan.enter('[') || scan.peek() == ']') return out;
  do {
    out.push_back(scan.value());
  } while (scan.next());
  return out;
}

std::optional<text_member> find_member(std::string_view text, std::size_t at, std::string_view name) {
  scanner scan(text, at);
  if (!scan.enter('{') || scan.peek() != '"') return std::nullopt;
  do {
    const text_member found = scan.member();
    if (is_key(found.key.in(text), name)) return found;
  } while (scan.next());
  return std::nullopt;
}

void text_edits::insert_first(std::string_view body, std::size_t at, std::string_view member_text) {
  scanner scan(body, at);
  scan.skip_space();
  scan.step();
  const std::size_t where = scan.at();
  scan.skip_space();
  const bool empty = scan.peek() == '}';
  edits_.push_back({{where, where}, std::string(member_text) + (empty ? "" : ",")});
}

void text_edits::remove(std::string_view body, std::size_t at, const std::vector<text_member>& members,
                        const std::vector<bool>& marked) {
  std::size_t kept = members.size();  // those behind it go together, with the comma in front of them
  while (kept > 0 && marked[kept - 1]) --kept;
  for (std::size_t i = 0; i < kept; ++i) {
    if (marked[i]) edits_.push_back({{members[i].key.begin, members[i + 1].key.begin}, {}});
  }
  if (kept == members.size()) return;
  scanner scan(body, at);
  scan.skip_space();
  const std::size_t begin = kept > 0 ? members[kept - 1].value.end : scan.at() + 1;
  edits_.push_back({{begin, members.back().value.end}, {}});
}

std::string text_edits::apply(std::string_view body) {
  std::stable_sort(edits_.begin(), edits_.end(),
                   [](const edit& a, const edit& b) { return a.where.begin < b.where.begin; });
  std::size_t size = body.size();
  for (const auto& e : edits_) size += e.text.size();
  std::string out;
  out.reserve(size);
  std::size_t done = 0;
  for (const auto& e : edits_) {
    out.append(body.substr(done, e.where.begin - done)).append(e.text);
    done = e.where.end;
  }
  return out.append(body.substr(done));
}

}  // namespace weir::gateway::api
