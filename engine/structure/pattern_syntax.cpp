#include "engine/structure/pattern_syntax.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "engine/structure/limits.hpp"
#include "engine/text/utf8.hpp"

namespace weir::engine::structure {

namespace {

constexpr char32_t k_last = text::k_code_point_max;
constexpr char32_t k_none = 0xFFFFFFFF;

void normalise(char_set& set) {
  std::sort(set.begin(), set.end(), [](const auto& a, const auto& b) { return a.low < b.low; });
  char_set out;
  for (const auto& range : set) {
    if (!out.empty() && range.low <= out.back().high + 1) {
      out.back().high = std::max(out.back().high, range.high);
    } else {
      out.push_back(range);
    }
  }
  set = std::move(out);
}

char_set complement(const char_set& set) {
  char_set out;
  char32_t from = 0;
  for (const auto& range : set) {
    if (range.low > from) out.push_back({from, range.low - 1});
    from = range.high + 1;
  }
  if (from <= k_last) out.push_back({from, k_last});
  return out;
}

// \d, \w, \s and their complements.
std::optional<char_set> named_set(char32_t letter) {
  switch (letter) {
    case 'd':
      return char_set{{'0', '9'}};
    case 'w':
      return char_set{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    case 's':
      return char_set{{0x09, 0x0D},     {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680},
                      {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                      {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
    case 'D':
    case 'W':
    case 'S':
      return complement(*named_set(letter + ('a' - 'A')));
    default:
      return std::nullopt;
  }
}

class pattern_parser final {
 public:
  explicit pattern_parser(std::string_view text) : text_(text) {}

  result<pattern_tree> run() {
    tree_.root = choice(0);
    if (fault_.empty() && !text_.empty()) refuse("has a ')' too many");
    if (!fault_.empty()) return fail(errc::bad_request, fault_);
    return std::move(tree_);
  }

 private:
  void refuse(std::string_view what) {
    if (fault_.empty()) fault_ = what;
    text_ = {};
  }

  bool eat(std::string_view what) {
    if (!text_.starts_with(what)) return false;
    text_.remove_prefix(what.size());
    return true;
  }

  char32_t next() {
    if (text_.empty()) {
      refuse("ends too early");
      return k_none;
    }
    const auto step = text::next_char(text_);
    if (step.status != text::utf8_status::valid) {
      refuse("is no UTF-8");
      return k_none;
    }
    text_.remove_prefix(step.size);
    return step.code_point;
  }

  std::uint32_t add(pattern_node node) {
    tree_.nodes.push_back(std::move(node));
    return static_cast<std::uint32_t>(tree_.nodes.size() - 1);
  }
  std::uint32_t add_chars(char_set set) {
    normalise(set);
    return add({.op = pattern_op::chars, .set = std::move(set)});
  }

  std::uint32_t choice(std::size_t depth) {
    if (depth > k_pattern_depth_max) refuse("nests groups too deeply");
    pattern_node node{.op = pattern_op::choice};
    do {
      node.parts.push_back(sequence(depth));
    } while (eat("|"));
    return node.parts.size() == 1 ? node.parts[0] : add(std::move(node));
  }

  std::uint32_t sequence(std::size_t depth) {
    pattern_node node{.op = pattern_op::sequence};
    while (!text_.empty() && text_[0] != '|' && text_[0] != ')') {
      const std::uint32_t part = atom(depth);
      node.parts.push_back(quantified(part));
    }
    return add(std::move(node));
  }

  std::uint32_t atom(std::size_t depth) {
    if (eat("^")) return add({.op = pattern_op::at_begin});
    if (eat("$")) return add({.op = pattern_op::at_end});
    if (eat(".")) return add_chars(complement({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}));
    if (eat("[")) return char_class();
    if (eat("(")) {
      if (text_.starts_with('?') && !eat("?:")) refuse("uses a group that is not supported");
      const std::uint32_t inner = choice(depth + 1);
      if (!eat(")")) refuse("has a '(' without its ')'");
      return inner;
    }
    if (eat("\\")) {
      if (!text_.empty()) {
        if (auto set = named_set(static_cast<unsigned char>(text_[0]))) {
          text_.remove_prefix(1);
          return add_chars(std::move(*set));
        }
      }
      const char32_t c = escape(false);
      return add_chars({{c, c}});
    }
    if (!text_.empty() && std::string_view("*+?").find(text_[0]) != std::string_view::npos) {
      refuse("has a quantifier without anything to repeat");
    }
    const char32_t c = next();
    return add_chars({{c, c}});
  }

  std::int64_t number() {
    std::int64_t value = -1;
    while (!text_.empty() && text_[0] >= '0' && text_[0] <= '9') {
      value = std::min<std::int64_t>(std::max<std::int64_t>(value, 0) * 10 + (text_[0] - '0'),
                                     k_pattern_repeat_max + 1);
      text_.remove_prefix(1);
    }
    return value;
  }

  // {n}, {n,} or {n,m}; a brace that opens none of them is a character.
  bool braces(std::int64_t& min, std::int64_t& max) {
    const std::string_view before = text_;
    if (eat("{")) {
      min = max = number();
      if (min >= 0) {
        if (eat(",")) max = number();
        if (eat("}")) {
          if (min > k_pattern_repeat_max || max > k_pattern_repeat_max) {
            refuse("repeats something more than " + std::to_string(k_pattern_repeat_max) + " times");
          }
          if (max >= 0 && max < min) refuse("has a quantifier whose limits are reversed");
          return true;
        }
      }
    }
    text_ = before;
    return false;
  }

  std::uint32_t quantified(std::uint32_t part) {
    pattern_node node{.op = pattern_op::repeat, .parts = {part}};
    if (eat("*")) {
      node.min = 0;
    } else if (eat("+")) {
      node.min = 1;
    } else if (eat("?")) {
      node.max = 1;
    } else if (!braces(node.min, node.max)) {
      return part;
    }
    eat("?");  // a lazy one matches the same texts
    const auto op = tree_.nodes[part].op;
    if (op == pattern_op::at_begin || op == pattern_op::at_end) refuse("repeats an anchor");
    return add(std::move(node));
  }

  char32_t hex(int digits) {
    char32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      const char c = text_.empty() ? ' ' : text_[0];
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) {
        refuse("has an escape without its hexadecimal digits");
        return k_none;
      }
      value = value * 16 + static_cast<char32_t>(digit);
      text_.remove_prefix(1);
    }
    return value;
  }

  char32_t unicode_escape() {
    if (!eat("{")) {
      const char32_t high = hex(4);
      if (high < 0xD800 || high > 0xDFFF) return high;
      if (high < 0xDC00 && eat("\\u")) {
        const char32_t low = hex(4);
        if (low >= 0xDC00 && low <= 0xDFFF) return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
      }
      refuse("has half of a surrogate pair");
      return k_none;
    }
    const auto digits = std::min<std::size_t>(text_.find('}'), 7);
    const char32_t value = digits > 6 ? k_none : hex(static_cast<int>(digits));
    if (!eat("}") || value > k_last) refuse("has an escape that is no character");
    return value;
  }

  // Behind a backslash: the character that is meant.
  char32_t escape(bool in_class) {
    static constexpr std::string_view k_letters = "tnrfv0";
    static constexpr std::string_view k_controls("\t\n\r\f\v\0", 6);
    static constexpr std::string_view k_punctuation = "^$\\.*+?()[]{}|/-,:;#&@!%=<>~`'\" _";
    const char32_t c = next();
    if (c == 'x') return hex(2);
    if (c == 'u') return unicode_escape();
    if (c == 'b' && in_class) return '\b';
    if (c < 0x80) {
      const auto letter = k_letters.find(static_cast<char>(c));
      const bool octal = c == '0' && !text_.empty() && text_[0] >= '0' && text_[0] <= '9';
      if (letter != k_letters.npos && !octal) return static_cast<unsigned char>(k_controls[letter]);
      if (k_punctuation.find(static_cast<char>(c)) != k_punctuation.npos) return c;
    }
    refuse("uses an escape that is not supported");
    return k_none;
  }

  // One member of a class: a character, or a set (then the character is k_none).
  char32_t member(char_set& set) {
    if (!eat("\\")) return next();
    if (!text_.empty()) {
      if (const auto named = named_set(static_cast<unsigned char>(text_[0]))) {
        text_.remove_prefix(1);
        set.insert(set.end(), named->begin(), named->end());
        return k_none;
      }
    }
    return escape(true);
  }

  std::uint32_t char_class() {
    const bool negated = eat("^");
    char_set set;
    while (!eat("]")) {
      if (text_.empty()) {
        refuse("has a '[' without its ']'");
        break;
      }
      const char32_t low = member(set);
      const bool range = text_.size() > 1 && text_[0] == '-' && text_[1] != ']';
      if (range) text_.remove_prefix(1);
      const char32_t high = range ? member(set) : low;
      if (!fault_.empty()) break;
      if (range && (low == k_none || high == k_none || low > high)) refuse("has a class with a bad range");
      if (low != k_none) set.push_back({low, high});
    }
    normalise(set);
    return add_chars(negated ? complement(set) : std::move(set));
  }

  std::string_view text_;
  std::string fault_;
  pattern_tree tree_;
};

}  // namespace

result<pattern_tree> parse_pattern(std::string_view pattern) {
  if (pattern.size() > k_pattern_bytes_max) {
    return fail(errc::bad_request, "is longer than " + std::to_string(k_pattern_bytes_max) + " bytes");
  }
  return pattern_parser(pattern).run();
}

}  // namespace weir::engine::structure
