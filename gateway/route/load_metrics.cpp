#include "gateway/route/load_metrics.hpp"

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <string>

namespace weir::gateway::route {

namespace {

using member = double load_report::*;

constexpr std::size_t k_engine_name_bytes_max = 64;

struct known_name {
  std::string_view name;
  member what;
};

constexpr known_name k_series[] = {
    {"vllm:num_requests_running", &load_report::running},
    {"vllm:num_requests_waiting", &load_report::waiting},
    {"vllm:kv_cache_usage_perc", &load_report::context_usage},
    {"vllm:gpu_cache_usage_perc", &load_report::context_usage},
    {"sglang:full_token_usage", &load_report::context_usage},
    {"sglang:mamba_usage", &load_report::state_usage},
    {"vllm:prefix_cache_queries", &load_report::queried_tokens},
    {"vllm:prefix_cache_queries_total", &load_report::queried_tokens},
    {"sglang:num_running_reqs", &load_report::running},
    {"sglang:num_queue_reqs", &load_report::waiting},
    {"sglang:num_waiting_uncached_tokens", &load_report::waiting_uncached_tokens},
    {"sglang:max_total_num_tokens", &load_report::capacity_tokens},
    {"sglang:prompt_tokens_total", &load_report::queried_tokens},
};

// Their labels are the message.
constexpr std::string_view k_cache_infos[] = {"vllm:cache_config_info", "sglang:cache_config_info"};

constexpr known_name k_loads_fields[] = {
    {"num_running_reqs", &load_report::running},
    {"num_waiting_reqs", &load_report::waiting},
    {"num_waiting_uncached_tokens", &load_report::waiting_uncached_tokens},
    {"max_total_num_tokens", &load_report::capacity_tokens},
};

// Of several engines the fullest counts: a request goes to one of them, nobody knows which.
constexpr member k_shares[] = {&load_report::context_usage, &load_report::state_usage};

constexpr member k_members[] = {&load_report::running, &load_report::waiting,
                                &load_report::waiting_uncached_tokens, &load_report::capacity_tokens,
                                &load_report::queried_tokens};

bool is_share(member what) {
  return std::find(std::begin(k_shares), std::end(k_shares), what) != std::end(k_shares);
}

double most_of(member what) {
  if (is_share(what)) return 1;
  return what == &load_report::running || what == &load_report::waiting ? k_reported_requests_max
                                                                        : k_reported_tokens_max;
}

class engine_sum {
 public:
  void note(std::string_view engine, member what, double value) {
    if (!(value >= 0 && value <= most_of(what))) return;
    if (what == &load_report::capacity_tokens && value < 1) return;
    auto found = engines_.find(engine);
    if (found == engines_.end()) {
      if (engines_.size() >= k_metrics_engines_max || engine.size() > k_engine_name_bytes_max) return;
      found = engines_.emplace(engine, load_report()).first;
    }
    auto& kept = found->second.*what;
    kept = std::max(kept, value);
  }

  std::optional<load_report> sum() const {
    if (engines_.empty()) return std::nullopt;
    load_report out;
    for (const auto& [name, engine] : engines_) {
      for (const member what : k_members) {
        if (engine.*what >= 0) out.*what = std::max(0.0, out.*what) + engine.*what;
      }
      for (const member what : k_shares) out.*what = std::max(out.*what, engine.*what);
    }
    return out;
  }

 private:
  std::map<std::string, load_report, std::less<>> engines_;
};

void skip(std::string_view& text, std::string_view any_of) {
  text.remove_prefix(std::min(text.find_first_not_of(any_of), text.size()));
}

// Below 0: not a number that counts something.
double to_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double out = -1;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), out);
  const bool whole = ec == std::errc() && end == text.data() + text.size();
  return whole && std::isfinite(out) ? out : -1;
}

struct labels {
  std::string_view engine;
  double block_tokens = -1;
  double blocks = -1;
};

void take_label(std::string_view key, std::string_view value, labels& out) {
  if (key == "engine" || key == "dp_rank") {
    out.engine = value;
  } else if (key == "block_size" || key == "page_size") {
    out.block_tokens = to_number(value);
  } else if (key == "num_gpu_blocks" || key == "num_pages") {
    out.blocks = to_number(value);
  }
}

// Behind the opening quote, up to the closing one, escapes as they are.
std::optional<std::string_view> take_quoted(std::string_view& rest) {
  for (std::size_t i = 0; i < rest.size(); ++i) {
    if (rest[i] == '\\') {
      ++i;
    } else if (rest[i] == '"') {
      const auto out = rest.substr(0, i);
      rest.remove_prefix(i + 1);
      return out;
    }
  }
  return std::nullopt;
}

// `rest` begins behind the brace and is left behind the closing one.
bool take_labels(std::string_view& rest, labels& out) {
  while (true) {
    skip(rest, " \t,");
    if (rest.empty()) return false;
    if (rest.front() == '}') {
      rest.remove_prefix(1);
      return true;
    }
    const auto equals = rest.find('=');
    if (equals == std::string_view::npos) return false;
    auto key = rest.substr(0, equals);
    key = key.substr(0, key.find_last_not_of(" \t") + 1);
    rest.remove_prefix(equals + 1);
    skip(rest, " \t");
    if (!rest.starts_with('"')) return false;
    rest.remove_prefix(1);
    const auto value = take_quoted(rest);
    if (!value) return false;
    take_label(key, *value, out);
  }
}

void read_line(std::string_view line, engine_sum& to) {
  skip(line, " \t");
  if (!line.starts_with("vllm:") && !line.starts_with("sglang:")) return;
  const auto name = line.substr(0, line.find_first_of("{ \t\r"));
  const auto known = std::find_if(std::begin(k_series), std::end(k_series),
                                  [&](const known_name& n) { return n.name == name; });
  const bool is_info =
      std::find(std::begin(k_cache_infos), std::end(k_cache_infos), name) != std::end(k_cache_infos);
  if (known == std::end(k_series) && !is_info) return;
  auto rest = line.substr(name.size());
  skip(rest, " \t");
  labels said;
  if (rest.starts_with('{')) {
    rest.remove_prefix(1);
    if (!take_labels(rest, said)) return;
  }
  if (is_info) {
    if (said.block_tokens > 0 && said.blocks > 0) {
      to.note(said.engine, &load_report::capacity_tokens, said.block_tokens * said.blocks);
    }
    return;
  }
  skip(rest, " \t");
  to.note(said.engine, known->what, to_number(rest.substr(0, rest.find_first_of(" \t\r"))));
}

std::optional<load_report> read_prometheus(std::string_view text) {
  engine_sum all;
  for (std::size_t lines = 0; !text.empty() && lines < k_metrics_lines_max; ++lines) {
    const auto end = std::min(text.find('\n'), text.size());
    if (end <= k_metrics_line_bytes_max) read_line(text.substr(0, end), all);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return all.sum();
}

std::optional<load_report> read_loads(std::string_view text) {
  simdjson::dom::parser parser(k_metrics_bytes_max);
  simdjson::dom::array loads;
  if (parser.parse(text.data(), text.size())["loads"].get(loads) != simdjson::SUCCESS) return std::nullopt;
  engine_sum all;
  std::size_t engine = 0;
  for (const auto load : loads) {
    const auto name = std::to_string(engine++);
    for (const auto& [key, what] : k_loads_fields) {
      double value = -1;
      if (load[key].get(value) == simdjson::SUCCESS) all.note(name, what, value);
    }
  }
  return all.sum();
}

}  // namespace

std::optional<load_report> read_load(std::string_view text) {
  if (text.size() > k_metrics_bytes_max) return std::nullopt;
  skip(text, " \t\r\n");
  return text.starts_with('{') ? read_loads(text) : read_prometheus(text);
}

}  // namespace weir::gateway::route
