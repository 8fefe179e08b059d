#include "engine/structure/json_tree.hpp"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <unordered_set>

#include "engine/structure/limits.hpp"

namespace weir::engine::structure {

namespace {

std::string escaped_step(std::string_view key) {
  std::string out;
  for (const char c : key) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// A URI fragment's %XX, then a pointer's ~1 and ~0.
std::optional<std::string> unescaped_step(std::string_view step) {
  std::string bytes;
  for (std::size_t i = 0; i < step.size(); ++i) {
    if (step[i] != '%') {
      bytes += step[i];
      continue;
    }
    const int high = i + 2 < step.size() ? hex_digit(step[i + 1]) : -1;
    const int low = i + 2 < step.size() ? hex_digit(step[i + 2]) : -1;
    if (high < 0 || low < 0) return std::nullopt;
    bytes += static_cast<char>(high * 16 + low);
    i += 2;
  }
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != '~') {
      out += bytes[i];
    } else if (i + 1 < bytes.size() && (bytes[i + 1] == '0' || bytes[i + 1] == '1')) {
      out += bytes[++i] == '0' ? '~' : '/';
    } else {
      return std::nullopt;
    }
  }
  return out;
}

}  // namespace

class tree_reader final {
 public:
  explicit tree_reader(json_tree& tree) : tree_(tree) {}

  result<void> read(simdjson::dom::element element, value_id parent, std::string step, std::size_t depth) {
    if (depth > k_schema_depth_max) {
      return refuse(parent, "is nested deeper than " + std::to_string(k_schema_depth_max) + " levels");
    }
    if (tree_.values_.size() >= k_schema_values_max) {
      return refuse(parent, "is part of more than " + std::to_string(k_schema_values_max) + " values");
    }
    const auto id = static_cast<value_id>(tree_.values_.size());
    auto& value = tree_.values_.emplace_back();
    value.parent = parent;
    value.step = std::move(step);
    if (parent != k_no_value) tree_.values_[parent].items.push_back(id);
    switch (element.type()) {
      case simdjson::dom::element_type::OBJECT:
        value.kind = json_kind::object;
        return read_object(element, id, depth);
      case simdjson::dom::element_type::ARRAY:
        value.kind = json_kind::array;
        return read_array(element, id, depth);
      case simdjson::dom::element_type::STRING:
        value.kind = json_kind::string;
        value.text = std::string_view(element);
        return {};
      case simdjson::dom::element_type::BOOL:
        value.kind = json_kind::boolean;
        value.truth = bool(element);
        return {};
      case simdjson::dom::element_type::NULL_VALUE:
        return {};
      default:
        read_number(element, value);
        return {};
    }
  }

 private:
  std::unexpected<error> refuse(value_id at, std::string_view what) const {
    const std::string where = at == k_no_value ? "#" : tree_.pointer(at);
    return fail(errc::bad_request, "'" + where + "' " + std::string(what));
  }

  static void read_number(simdjson::dom::element element, json_value& value) {
    std::int64_t whole = 0;
    std::uint64_t large = 0;
    double real = 0;
    if (!element.get(whole)) {
      value.text = std::to_string(whole);
    } else if (!element.get(large)) {
      value.text = std::to_string(large);
    } else if (!element.get(real)) {
      value.text = canonical_number(real);
    }
    const bool fraction = value.text.find_first_of(".eE") != value.text.npos;
    value.kind = fraction ? json_kind::fraction : json_kind::integer;
  }

  result<void> read_object(simdjson::dom::object object, value_id id, std::size_t depth) {
    std::unordered_set<std::string_view> seen;
    for (const auto& [key, member] : object) {
      if (!seen.insert(key).second) return refuse(id, "has the key '" + std::string(key) + "' twice");
      tree_.values_[id].keys.emplace_back(key);
      if (auto ok = read(member, id, escaped_step(key), depth + 1); !ok) return ok;
    }
    return {};
  }

  result<void> read_array(simdjson::dom::array array, value_id id, std::size_t depth) {
    std::size_t index = 0;
    for (const auto item : array) {
      if (auto ok = read(item, id, std::to_string(index++), depth + 1); !ok) return ok;
    }
    return {};
  }

  json_tree& tree_;
};

result<json_tree> json_tree::parse(std::string_view text) {
  if (text.size() > k_schema_bytes_max) {
    return fail(errc::bad_request, "has more than " + std::to_string(k_schema_bytes_max) + " bytes");
  }
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  const simdjson::padded_string padded(text);
  if (const auto code = parser.parse(padded).get(root)) {
    return fail(errc::bad_request, "is no JSON: " + std::string(simdjson::error_message(code)));
  }
  json_tree out;
  tree_reader reader(out);
  if (auto ok = reader.read(root, k_no_value, {}, 0); !ok) return std::unexpected(ok.error());
  return out;
}

value_id json_tree::find(value_id object, std::string_view key) const noexcept {
  const json_value& value = values_[object];
  const auto at = std::find(value.keys.begin(), value.keys.end(), key);
  return at == value.keys.end() ? k_no_value : value.items[static_cast<std::size_t>(at - value.keys.begin())];
}

std::string json_tree::pointer(value_id id) const {
  std::vector<std::string_view> steps;
  for (value_id at = id; values_[at].parent != k_no_value; at = values_[at].parent) {
    steps.push_back(values_[at].step);
  }
  std::string out = "#";
  for (auto it = steps.rbegin(); it != steps.rend(); ++it) out.append("/").append(*it);
  return out;
}

value_id json_tree::resolve(std::string_view reference) const {
  if (!reference.starts_with('#')) return k_no_value;
  reference.remove_prefix(1);
  value_id at = root();
  while (!reference.empty()) {
    if (reference.front() != '/') return k_no_value;
    reference.remove_prefix(1);
    const std::string_view step = reference.substr(0, reference.find('/'));
    reference.remove_prefix(step.size());
    const auto key = unescaped_step(step);
    if (!key) return k_no_value;
    const json_value& value = values_[at];
    if (value.kind == json_kind::object) {
      at = find(at, *key);
    } else if (value.kind == json_kind::array) {
      std::size_t index = 0;
      const auto [end, ec] = std::from_chars(key->data(), key->data() + key->size(), index);
      if (ec != std::errc() || end != key->data() + key->size() || index >= value.items.size()) {
        return k_no_value;
      }
      at = value.items[index];
    } else {
      return k_no_value;
    }
    if (at == k_no_value) return k_no_value;
  }
  return at;
}

void json_tree::write(value_id id, bool sorted, std::string& out) const {
  const json_value& value = values_[id];
  switch (value.kind) {
    case json_kind::null:
      out += "null";
      return;
    case json_kind::boolean:
      out += value.truth ? "true" : "false";
      return;
    case json_kind::integer:
    case json_kind::fraction:
      out += value.text;
      return;
    case json_kind::string:
      out += canonical_string(value.text);
      return;
    case json_kind::array:
      out += '[';
      for (std::size_t i = 0; i < value.items.size(); ++i) {
        if (i > 0) out += ',';
        write(value.items[i], sorted, out);
      }
      out += ']';
      return;
    case json_kind::object:
      break;
  }
  std::vector<std::size_t> order(value.keys.size());
  std::iota(order.begin(), order.end(), 0);
  if (sorted)
    std::sort(order.begin(), order.end(), [&](auto a, auto b) { return value.keys[a] < value.keys[b]; });
  out += '{';
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i > 0) out += ',';
    out += canonical_string(value.keys[order[i]]);
    out += ':';
    write(value.items[order[i]], sorted, out);
  }
  out += '}';
}

std::string json_tree::dump(value_id id) const {
  std::string out;
  write(id, false, out);
  return out;
}

std::string json_tree::identity(value_id id) const {
  std::string out;
  write(id, true, out);
  return out;
}

std::string canonical_string(std::string_view text) {
  static constexpr std::string_view k_short = "\b\f\n\r\t\"\\";
  static constexpr std::string_view k_letters = "bfnrt\"\\";
  static constexpr char k_hex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    if (const auto at = k_short.find(c); at != k_short.npos) {
      out += {'\\', k_letters[at]};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += std::string("\\u00") + k_hex[static_cast<unsigned char>(c) >> 4] + k_hex[c & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string canonical_number(double value) {
  if (value == 0) return "0";
  std::array<char, 512> buffer{};
  auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed).ptr;
  std::string fixed(buffer.data(), end);
  const auto point = std::min(fixed.find('.'), fixed.size());
  const std::size_t before = point - (fixed[0] == '-' ? 1 : 0);
  const std::size_t behind = fixed.size() - point;
  if (before <= k_number_digits_max && behind <= k_number_digits_max + 1) return fixed;
  end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

}  // namespace weir::engine::structure
