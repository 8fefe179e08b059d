#include "gateway/shadow/agree.hpp"

#include <simdjson.h>

#include <algorithm>
#include <cmath>

#include "policy/comparison/overlap.hpp"

namespace weir::gateway::shadow {

namespace {

using policy::comparison::likeness;
using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

constexpr std::size_t k_json_depth_max = 128;
constexpr std::string_view k_fence = "```";
constexpr double k_millionths = 1e6;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view k_space = " \t\r\n";
  const auto begin = text.find_first_not_of(k_space);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(k_space) - begin + 1);
}

// Models like to put JSON into a fence of Markdown.
std::string_view without_fence(std::string_view text) {
  text = trimmed(text);
  if (!text.starts_with(k_fence) || !text.ends_with(k_fence)) return text;
  const auto line = text.find('\n');
  if (line == text.npos || line + k_fence.size() > text.size()) return text;
  return trimmed(text.substr(line, text.size() - k_fence.size() - line));
}

bool equal(const element& a, const element& b);

bool equal(const object& a, const object& b) {
  if (a.size() != b.size()) return false;
  return std::all_of(a.begin(), a.end(), [&](const auto& member) {
    element other;
    return !b.at_key(member.key).get(other) && equal(member.value, other);
  });
}

bool equal(const array& a, const array& b) {
  if (a.size() != b.size()) return false;
  auto other = b.begin();
  for (const auto one : a) {
    if (!equal(one, *other)) return false;
    ++other;
  }
  return true;
}

// No deeper than the parsers let anything be.
bool equal(const element& a, const element& b) {
  double number = 0, other = 0;
  if (a.is_number() && b.is_number()) return !a.get(number) && !b.get(other) && number == other;
  if (a.type() != b.type()) return false;
  switch (a.type()) {
    case simdjson::dom::element_type::OBJECT:
      return equal(object(a), object(b));
    case simdjson::dom::element_type::ARRAY:
      return equal(array(a), array(b));
    case simdjson::dom::element_type::STRING:
      return std::string_view(a) == std::string_view(b);
    case simdjson::dom::element_type::BOOL:
      return bool(a) == bool(b);
    default:
      return true;  // two nulls
  }
}

// A text as JSON, while this lives.
class parsed {
 public:
  explicit parsed(std::string_view text) {
    if (text.empty() || parser_.allocate(text.size() + 1, k_json_depth_max)) return;
    good_ = !parser_.parse(text.data(), text.size()).get(root_);
  }
  bool good() const { return good_; }
  bool is_container() const { return good_ && (root_.is_object() || root_.is_array()); }
  const element& root() const { return root_; }

 private:
  simdjson::dom::parser parser_;
  element root_;
  bool good_ = false;
};

bool equal_arguments(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const parsed left(a);
  const parsed right(b);
  return left.good() && right.good() && equal(left.root(), right.root());
}

}  // namespace

likeness compare_json(std::string_view a, std::string_view b) {
  const parsed left(without_fence(a));
  const parsed right(without_fence(b));
  if (!left.is_container() && !right.is_container()) return likeness::absent;
  const bool both = left.is_container() && right.is_container();
  return both && equal(left.root(), right.root()) ? likeness::equal : likeness::different;
}

likeness compare_calls(const std::vector<tool_call>& a, const std::vector<tool_call>& b) {
  if (a.empty() && b.empty()) return likeness::absent;
  const bool same = std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.name == y.name && equal_arguments(x.arguments, y.arguments);
  });
  return same ? likeness::equal : likeness::different;
}

policy::comparison::agreement agree(const answer& a, const answer& b) {
  policy::comparison::agreement out{.compared = true, .cut = a.cut || b.cut};
  out.exact = a.text == b.text && a.calls == b.calls;
  out.overlap = std::round(policy::comparison::word_overlap(a.text, b.text) * k_millionths) / k_millionths;
  out.json = compare_json(a.text, b.text);
  out.tools = compare_calls(a.calls, b.calls);
  return out;
}

}  // namespace weir::gateway::shadow
