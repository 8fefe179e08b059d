#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/text/printable.hpp"
#include "gateway/cli/admin_client.hpp"
#include "gateway/cli/commands.hpp"
#include "gateway/ledger/ledger.hpp"
#include "gateway/shadow/pair_json.hpp"
#include "gateway/shadow/report.hpp"

namespace weir::gateway::cli {

namespace {

using policy::comparison::pair;

constexpr std::size_t k_page_pairs = 1000;
constexpr std::size_t k_pairs_max = 1'000'000;  // of a server that never says where its list ends

struct compare_options {
  admin_address at;
  std::filesystem::path ledger_dir;  // empty: a running weir is asked
  std::string model;
  std::string since;
  std::filesystem::path html_file;
  bool json = false;
};

int fail(const std::string& message, int exit_code = k_failed) {
  std::fprintf(stderr, "weir compare: %s\n", message.c_str());
  return exit_code;
}

// 90s, 30m, 24h, 7d before now, or a Unix time.
std::optional<std::int64_t> to_since(std::string_view text) {
  if (text.empty()) return 0;
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, ec] = std::from_chars(text.data(), end, number);
  if (ec != std::errc() || number < 0 || number > (std::int64_t{1} << 40)) return std::nullopt;
  if (stop == end) return number;
  if (stop + 1 != end) return std::nullopt;
  constexpr std::pair<char, std::int64_t> k_units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86'400}};
  for (const auto& [unit, seconds] : k_units) {
    if (*stop == unit) return std::max<std::int64_t>(0, std::time(nullptr) - number * seconds);
  }
  return std::nullopt;
}

std::expected<std::vector<pair>, admin_failure> read_folder(const compare_options& options,
                                                            std::int64_t since_s) {
  const auto stored = ledger::ledger::read_pairs(options.ledger_dir);
  if (!stored) return std::unexpected(admin_failure{k_failed, stored.error()});
  std::vector<pair> out;
  for (const auto& [place, record] : *stored) {
    const bool wanted = options.model.empty() || record->model == options.model;
    if (wanted && record->at_s >= since_s) out.push_back(*record);
  }
  return out;
}

std::expected<std::vector<pair>, admin_failure> ask_server(const compare_options& options,
                                                           std::int64_t since_s) {
  std::vector<pair> out;
  std::set<std::string> seen;
  std::string cursor;
  do {
    auto target = fmt::format("/admin/v1/shadow/pairs?limit={}&since={}", k_page_pairs, since_s);
    if (!options.model.empty()) target += "&model=" + path_segment(options.model);
    if (!cursor.empty()) target += "&cursor=" + cursor;
    const auto answer = call_admin(options.at, boost::beast::http::verb::get, target);
    if (!answer) return std::unexpected(answer.error());
    auto page = shadow::read_page_of_pairs(*answer);
    const bool ends = page && (page->next.empty() || seen.insert(page->next).second);
    if (!ends) return std::unexpected(admin_failure{k_failed, "an answer that is not weir's"});
    for (auto& one : page->pairs) out.push_back(std::move(one));
    if (out.size() > k_pairs_max) {
      return std::unexpected(admin_failure{
          k_failed, fmt::format("more than {} pairs; narrow them with --since or --model", k_pairs_max)});
    }
    cursor = std::move(page->next);
  } while (!cursor.empty());
  return out;
}

// Answers of clients' requests may be in it: nobody else shall read it.
bool write_private(const std::filesystem::path& file, const std::string& text) {
  const int made = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (made < 0) return false;
  if (::fchmod(made, 0600) != 0) {  // one that was there
    ::close(made);
    return false;
  }
  std::size_t done = 0;
  while (done < text.size()) {
    const auto wrote = ::write(made, text.data() + done, text.size() - done);
    if (wrote <= 0) break;
    done += static_cast<std::size_t>(wrote);
  }
  return ::close(made) == 0 && done == text.size();
}

std::string no_pairs(const compare_options& options) {
  std::string which;
  if (!options.model.empty()) which += " of model " + engine::text::printable(options.model);
  if (!options.since.empty()) which += " since " + options.since;
  return fmt::format(
      "There are no pairs{} yet. They come from shadow.copies in the configuration, of requests of keys with "
      "shadow: true;\nweir_shadow_dropped_total in /metrics says why requests were not copied.\n",
      which);
}

int compare(const compare_options& options) {
  const auto since_s = to_since(options.since);
  if (!since_s) return fail("--since: expected 24h, 30m, 7d or a Unix time", k_bad_config);
  auto pairs = options.ledger_dir.empty() ? ask_server(options, *since_s) : read_folder(options, *since_s);
  if (!pairs) return fail(pairs.error().message, pairs.error().exit_code);
  const auto all = shadow::compare_all(std::move(*pairs));
  if (!options.html_file.empty() && !write_private(options.html_file, shadow::to_html(all))) {
    return fail(fmt::format("cannot write {}", options.html_file.string()));
  }
  if (options.json) {
    std::printf("%s\n", engine::text::printable(shadow::to_json(all)).c_str());
  } else {
    std::string text;
    for (const auto& one : all) text += (text.empty() ? "" : "\n") + shadow::to_text(one);
    if (text.empty()) text = no_pairs(options);
    std::fputs(text.c_str(), stdout);
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) return fail("standard output takes nothing");
  return k_ok;
}

}  // namespace

void add_compare(CLI::App& app, command& chosen) {
  auto options = std::make_shared<compare_options>();
  auto* sub = app.add_subcommand("compare",
                                 "Say which target is cheaper, faster and more reliable, from shadow copies");
  add_admin_options(*sub, options->at);
  sub->add_option("--ledger", options->ledger_dir,
                  "Read the folder of auth.ledger_dir, where no weir runs, instead of asking one");
  sub->add_option("--model", options->model, "Only pairs of this model");
  sub->add_option("--since", options->since, "Only pairs of the last 24h (30m, 7d), or since a Unix time");
  sub->add_option("--html", options->html_file, "Write a page with plots and the worst differences");
  sub->add_flag("--json", options->json, "Print the figures as JSON");
  sub->footer(
      "Pairs come from shadow.copies in the configuration: a share of the requests of keys with shadow: true "
      "goes to\n"
      "another target too, after its answer went out. The verdict comes first, then medians and tails with "
      "their 95%\n"
      "intervals. The page holds the begins of answers where keep_text is set; it is written for its owner "
      "alone.\n\n"
      "Examples:\n"
      "  weir compare --admin-key-file /etc/weir/admin.key --since 24h --html compare.html\n"
      "  weir compare --ledger /var/lib/weir/ledger --model kimi --json");
  sub->callback([options, &chosen] { chosen = [options] { return compare(*options); }; });
}

}  // namespace weir::gateway::cli
