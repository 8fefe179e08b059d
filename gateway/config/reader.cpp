#include "gateway/config/reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>

namespace weir::gateway::config {

namespace {

mark to_mark(const YAML::Mark& m) {
  return m.is_null() ? mark{} : mark{.line = m.line + 1, .column = m.column + 1};
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j + 1] + 1, row[j] + 1, substituted});
    }
  }
  return row[b.size()];
}

std::optional<std::int64_t> to_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> to_bytes(std::string_view text) {
  struct unit {
    std::string_view suffix;
    std::int64_t factor;
  };
  static constexpr unit k_units[] = {{"GiB", 1LL << 30}, {"MiB", 1LL << 20}, {"KiB", 1LL << 10}};
  for (const auto& u : k_units) {
    if (!text.ends_with(u.suffix)) continue;
    const auto count = to_integer(text.substr(0, text.size() - u.suffix.size()));
    std::int64_t value = 0;
    if (!count || __builtin_mul_overflow(*count, u.factor, &value)) return std::nullopt;
    return value;
  }
  return to_integer(text);
}

}  // namespace

map_reader::map_reader(parse_state& state, const YAML::Node& node, std::string path)
    : state_(state), node_(node), path_(std::move(path)) {
  if (node_.IsDefined() && !node_.IsNull() && !node_.IsMap()) {
    fail("", "expected a mapping (key: value lines)");
    node_ = YAML::Node(YAML::NodeType::Map);
  }
}

YAML::Node map_reader::find(std::string_view key) {
  known_.emplace(key);
  return node_.IsMap() ? std::as_const(node_)[std::string(key)] : YAML::Node(YAML::NodeType::Undefined);
}

bool map_reader::has(std::string_view key) const {
  return node_.IsMap() && node_[std::string(key)].IsDefined();
}

mark map_reader::at() const {
  return to_mark(node_.Mark());
}

mark map_reader::at(std::string_view key) const {
  if (!node_.IsMap()) return at();
  const auto node = node_[std::string(key)];
  return node.IsDefined() ? to_mark(node.Mark()) : at();
}

std::string map_reader::path_of(std::string_view key) const {
  if (path_.empty() || key.empty()) return path_ + std::string(key);
  return path_ + "." + std::string(key);
}

void map_reader::fail_at(const YAML::Mark& m, std::string_view key, std::string message) {
  state_.faults.push_back({state_.file, to_mark(m), path_of(key), std::move(message)});
}

void map_reader::fail(std::string_view key, std::string message) {
  const auto node = key.empty() || !node_.IsMap() ? node_ : std::as_const(node_)[std::string(key)];
  fail_at(node.IsDefined() ? node.Mark() : node_.Mark(), key, std::move(message));
}

bool map_reader::scalar(std::string_view key, std::string& out) {
  const auto node = find(key);
  if (!node.IsDefined()) return false;
  if (!node.IsScalar()) {
    fail(key, "expected a single value");
    return false;
  }
  if (node.Scalar().size() > k_text_bytes_max) {
    fail(key, fmt::format("longer than {} bytes", k_text_bytes_max));
    return false;
  }
  out = node.Scalar();
  return true;
}

void map_reader::text(std::string_view key, std::string& out) {
  scalar(key, out);
}

void map_reader::choice(std::string_view key, std::string& out, std::span<const std::string_view> allowed) {
  std::string value;
  if (!scalar(key, value)) return;
  if (std::find(allowed.begin(), allowed.end(), value) == allowed.end()) {
    fail(key, fmt::format("'{}' is not one of {}", value, fmt::join(allowed, ", ")));
    return;
  }
  out = value;
}

void map_reader::flag(std::string_view key, bool& out) {
  std::string value;
  if (!scalar(key, value)) return;
  if (value == "true") {
    out = true;
  } else if (value == "false") {
    out = false;
  } else {
    fail(key, fmt::format("'{}' is neither true nor false", value));
  }
}

template <class T, class Read>
void map_reader::maybe(std::string_view key, std::optional<T>& out, Read read) {
  if (!has(key)) {
    find(key);
    return;
  }
  T value{};
  read(value);
  out = value;
}

void map_reader::maybe_flag(std::string_view key, std::optional<bool>& out) {
  maybe(key, out, [&](bool& value) { flag(key, value); });
}

void map_reader::maybe_number(std::string_view key, std::optional<double>& out, double min, double max) {
  maybe(key, out, [&](double& value) { number(key, value, min, max); });
}

void map_reader::number(std::string_view key, double& out, double min, double max) {
  std::string value;
  if (!scalar(key, value)) return;
  double number = 0;
  const auto [end, fault] = std::from_chars(value.data(), value.data() + value.size(), number);
  // The comparison is false for what is no number.
  if (fault != std::errc() || end != value.data() + value.size() || !(number >= min && number <= max)) {
    fail(key, fmt::format("'{}' is not a number from {} to {}", value, min, max));
    return;
  }
  out = number;
}

void map_reader::integer(std::string_view key, std::int64_t& out, int_range range) {
  std::string value;
  if (!scalar(key, value)) return;
  const auto number = to_integer(value);
  if (!number || *number < range.min || *number > range.max) {
    fail(key, fmt::format("'{}' is not a whole number from {} to {}", value, range.min, range.max));
    return;
  }
  out = *number;
}

void map_reader::bytes(std::string_view key, std::int64_t& out, int_range range) {
  std::string value;
  if (!scalar(key, value)) return;
  const auto number = to_bytes(value);
  if (!number || *number < range.min || *number > range.max) {
    fail(key, fmt::format("'{}' is not a size from {} to {} bytes (write 1024, 64KiB, 256MiB or 1GiB)", value,
                          range.min, range.max));
    return;
  }
  out = *number;
}

void map_reader::file_path(std::string_view key, std::filesystem::path& out) {
  std::string value;
  if (!scalar(key, value)) return;
  if (value.empty() || value.find('\0') != std::string::npos) {
    fail(key, "expected a path");
    return;
  }
  out = (state_.base_dir / value).lexically_normal();
}

void map_reader::url_path(std::string_view key, std::string& out) {
  text(key, out);
  const bool is_path = std::all_of(out.begin(), out.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (!out.starts_with('/') || !is_path) {
    fail(key, "expected a path of printable ASCII characters that begins with /");
  }
}

void map_reader::text_list(std::string_view key, std::vector<std::string>& out) {
  const auto node = find(key);
  if (!node.IsDefined()) return;
  if (!node.IsSequence() || node.size() > k_list_entries_max) {
    fail(key, fmt::format("expected a list of at most {} entries", k_list_entries_max));
    return;
  }
  for (const auto& entry : node) {
    if (!entry.IsScalar() || entry.Scalar().size() > k_text_bytes_max) {
      fail_at(entry.Mark(), key, fmt::format("each entry is a text of at most {} bytes", k_text_bytes_max));
      continue;
    }
    out.push_back(entry.Scalar());
  }
}

void map_reader::map(std::string_view key, const std::function<void(map_reader&)>& read) {
  const auto node = find(key);
  if (!node.IsDefined()) return;
  map_reader inner(state_, node, path_of(key));
  read(inner);
  inner.finish();
}

void map_reader::map_list(std::string_view key, const std::function<void(map_reader&)>& read) {
  const auto node = find(key);
  if (!node.IsDefined()) return;
  if (!node.IsSequence() || node.size() > k_list_entries_max) {
    fail(key, fmt::format("expected a list of at most {} entries", k_list_entries_max));
    return;
  }
  for (std::size_t i = 0; i < node.size(); ++i) {
    map_reader inner(state_, node[i], fmt::format("{}[{}]", path_of(key), i));
    read(inner);
    inner.finish();
  }
}

void map_reader::finish() {
  if (!node_.IsMap()) return;
  std::set<std::string, std::less<>> seen;
  for (const auto& entry : node_) {
    if (!entry.first.IsScalar()) {
      fail_at(entry.first.Mark(), "", "a key must be a single word");
      continue;
    }
    const std::string& key = entry.first.Scalar();
    if (!seen.insert(key).second) fail_at(entry.first.Mark(), key, "the key stands here twice");
    if (known_.contains(key)) continue;
    std::string message = "unknown key";
    if (key.size() <= 64) {
      const auto nearest = std::min_element(known_.begin(), known_.end(), [&](const auto& a, const auto& b) {
        return edit_distance(key, a) < edit_distance(key, b);
      });
      if (nearest != known_.end() && edit_distance(key, *nearest) <= 2) {
        message += fmt::format("; did you mean '{}'?", *nearest);
      } else {
        message += fmt::format("; known here: {}", fmt::join(known_, ", "));
      }
    }
    fail_at(entry.first.Mark(), key.substr(0, 64), std::move(message));
  }
}

}  // namespace weir::gateway::config
