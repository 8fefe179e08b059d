// Reads one YAML mapping into fields, collecting every fault instead of stopping at the first: unknown keys
// (with the nearest known one), wrong types, values out of range, each with its line. One parse, one thread.
#pragma once

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/config/config.hpp"

namespace weir::gateway::config {

struct parse_state {
  std::string file;
  std::filesystem::path base_dir;  // relative paths in the file start here
  std::vector<fault> faults;
};

struct int_range {
  std::int64_t min;
  std::int64_t max;
};

inline constexpr std::size_t k_text_bytes_max = 4096;    // any scalar; longer is a mistake
inline constexpr std::size_t k_list_entries_max = 4096;  // any list

class map_reader final {
 public:
  // `path` is the dotted path of this mapping, "" at the top. A node that is no mapping is a fault and reads
  // as empty.
  map_reader(parse_state& state, const YAML::Node& node, std::string path);

  void text(std::string_view key, std::string& out);
  void choice(std::string_view key, std::string& out, std::span<const std::string_view> allowed);
  void choice(std::string_view key, std::string& out, std::initializer_list<std::string_view> allowed) {
    choice(key, out, std::span(allowed.begin(), allowed.size()));
  }
  void flag(std::string_view key, bool& out);
  void url_path(std::string_view key, std::string& out);  // printable ASCII behind a /
  void integer(std::string_view key, std::int64_t& out, int_range range);
  void number(std::string_view key, double& out, double min, double max);
  void maybe_number(std::string_view key, std::optional<double>& out, double min, double max);
  void maybe_flag(std::string_view key, std::optional<bool>& out);
  void bytes(std::string_view key, std::int64_t& out, int_range range);  // 1024, 64KiB, 256MiB, 1GiB
  void file_path(std::string_view key, std::filesystem::path& out);
  void text_list(std::string_view key, std::vector<std::string>& out);
  void map(std::string_view key, const std::function<void(map_reader&)>& read);
  void map_list(std::string_view key, const std::function<void(map_reader&)>& read);

  bool has(std::string_view key) const;
  mark at() const;
  mark at(std::string_view key) const;  // of the value; of the mapping where the key is absent
  void fail(std::string_view key, std::string message);

  // Reports keys that no call above asked for. Call last.
  void finish();

 private:
  template <class T, class Read>
  void maybe(std::string_view key, std::optional<T>& out, Read read);
  YAML::Node find(std::string_view key);
  std::string path_of(std::string_view key) const;
  bool scalar(std::string_view key, std::string& out);
  void fail_at(const YAML::Mark& mark, std::string_view key, std::string message);

  parse_state& state_;
  YAML::Node node_;
  std::string path_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace weir::gateway::config
