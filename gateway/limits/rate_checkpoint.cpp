#include "gateway/limits/rate_checkpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

namespace weir::gateway::limits {

namespace {

constexpr std::string_view k_first_line = "weir-rates 1 ";
constexpr std::int64_t k_ns_per_ms = 1'000'000;
constexpr std::int64_t k_ahead_max_ns = policy::limits::k_windows_ahead * policy::limits::k_minute_ns;

std::int64_t unix_ms() {
  using std::chrono::milliseconds;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<milliseconds>(now).count();
}

// The next word of a line, up to a space or the line's end.
std::string_view take_word(std::string_view& line) {
  const auto end = std::min(line.find(' '), line.size());
  const auto word = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return word;
}

bool to_number(std::string_view word, std::int64_t& out) {
  const auto [stop, ec] = std::from_chars(word.data(), word.data() + word.size(), out);
  return ec == std::errc() && stop == word.data() + word.size() && out >= 0;
}

}  // namespace

std::string write_rates(const account_table& accounts, std::int64_t now_ns, std::int64_t now_unix_ms) {
  std::string out = fmt::format("{}{}\n", k_first_line, now_unix_ms);
  accounts.for_each([&](const account& a) {
    const auto requests = a.requests.empty_in_ns(now_ns);
    const auto tokens = a.tokens.empty_in_ns(now_ns);
    if (requests > 0 || tokens > 0) out += fmt::format("{} {} {}\n", requests, tokens, a.id());
  });
  return out;
}

bool read_rates(std::string_view text, account_table& accounts, std::int64_t now_ns,
                std::int64_t now_unix_ms) {
  if (!text.starts_with(k_first_line)) return false;
  text.remove_prefix(k_first_line.size());
  const auto take_line = [&text] {
    const auto end = std::min(text.find('\n'), text.size());
    const auto line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return line;
  };
  std::int64_t written_ms = 0;
  if (!to_number(take_line(), written_ms)) return false;
  const std::int64_t gone_ms =
      std::clamp<std::int64_t>(now_unix_ms - written_ms, 0, k_ahead_max_ns / k_ns_per_ms);
  const auto left = [&](std::int64_t ns) {
    return std::clamp<std::int64_t>(ns, 0, k_ahead_max_ns) - gone_ms * k_ns_per_ms;
  };
  while (!text.empty()) {
    auto line = take_line();
    std::int64_t requests = 0;
    std::int64_t tokens = 0;
    if (!to_number(take_word(line), requests) || !to_number(take_word(line), tokens) || line.empty())
      continue;
    if (left(requests) <= 0 && left(tokens) <= 0) continue;
    const auto account = accounts.of(line);
    account->requests.restore(left(requests), now_ns);
    account->tokens.restore(left(tokens), now_ns);
  }
  return true;
}

void rate_checkpoint::open(const std::filesystem::path& folder) {
  file_ = folder / "rates";
  std::ifstream in(file_, std::ios::binary);
  std::error_code ec;
  if (!in || std::filesystem::file_size(file_, ec) > k_checkpoint_bytes_max || ec) return;
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  read_rates(text, accounts_, cell_now_ns(), unix_ms());
}

void rate_checkpoint::tick(bool last) {
  const std::int64_t now_ms = unix_ms();
  if (file_.empty() || (!last && now_ms / 1000 - written_s_ < k_checkpoint_every_s)) return;
  written_s_ = now_ms / 1000;
  const auto text = write_rates(accounts_, cell_now_ns(), now_ms);
  const bool nothing = text.find('\n') + 1 == text.size();
  if (nothing && std::exchange(nothing_written_, true)) return;
  nothing_written_ = nothing;
  const auto fresh = std::filesystem::path(file_).concat(".new");
  std::ofstream out(fresh, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  std::error_code ignored;
  if (out) std::filesystem::rename(fresh, file_, ignored);
}

}  // namespace weir::gateway::limits
