#include "tests/gateway/ledger/crash_run.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <optional>
#include <set>

#include "gateway/ledger/money.hpp"

extern char** environ;  // NOLINT: posix_spawn's

namespace weir::gateway::ledger {

namespace {

using clock_type = std::chrono::steady_clock;

constexpr int k_open_ms_max = 60'000;

struct process {
  pid_t id = -1;
  int from = -1;  // its standard output
};

process start(const std::filesystem::path& folder, const crash_plan& plan, std::int64_t generation) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};  // other lanes' children must not hold it open
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  std::vector<std::string> words{WEIR_CRASH_CHILD,
                                 folder.string(),
                                 std::to_string(plan.seed),
                                 std::to_string(plan.write_buffer_bytes),
                                 plan.power_loss ? "1" : "0",
                                 std::to_string(generation)};
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  process child{.from = ends[0]};
  if (::posix_spawn(&child.id, WEIR_CRASH_CHILD, &actions, nullptr, arguments.data(), environ) != 0)
    child.id = -1;
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  return child;
}

// Reads until there is no more, or until `until`. False: no more.
bool read_events(int from, std::string& bytes, clock_type::time_point until, bool stop_at_first) {
  std::array<char, 65'536> some;
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - clock_type::now()).count();
    if (left <= 0) return true;
    pollfd ready{.fd = from, .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, static_cast<int>(left)) <= 0) continue;
    const auto got = ::read(from, some.data(), some.size());
    if (got <= 0) return false;
    bytes.append(some.data(), static_cast<std::size_t>(got));
    if (stop_at_first && bytes.size() >= sizeof(crash_event)) return true;
  }
}

}  // namespace

// What one process said, by the number of the reservation or key.
struct crash_run::life {
  struct reservation {
    std::uint32_t account = 0;
    std::int64_t amount = 0;
    bool durable = false;
    std::optional<std::int64_t> actual;  // settled, at this
    bool settle_durable = false;
  };
  struct put {
    std::int64_t generation = 0;
    bool revoked = false;
    bool durable = false;
  };
  bool opened = false;
  bool refused = false;
  bool ended_by_itself = false;
  std::vector<reservation> reservations;
  std::map<std::uint32_t, std::vector<put>> puts;

  void add(const crash_event& event) {
    using kind = crash_event_kind;
    if (event.kind == kind::opened) opened = true;
    if (event.kind == kind::refused) refused = true;
    if (event.kind == kind::reserve)
      reservations.push_back({.account = event.account, .amount = event.amount});
    if (event.kind == kind::reserved) reservations.at(event.number).durable = true;
    if (event.kind == kind::settle) reservations.at(event.number).actual = event.amount;
    if (event.kind == kind::settled) reservations.at(event.number).settle_durable = true;
    if (event.kind == kind::put) puts[event.number].push_back({event.amount, event.revoked != 0});
    if (event.kind != kind::put_done) return;
    for (auto& one : puts[event.number]) one.durable = one.durable || one.generation == event.amount;
  }
};

std::string crash_run::cycle(const crash_plan& plan) {
  const auto child = start(folder_, plan, generation_);
  if (child.id < 0) return "the process did not start";
  std::string bytes;
  bool lives = true;
  if (!plan.while_opening) {
    lives =
        read_events(child.from, bytes, clock_type::now() + std::chrono::milliseconds(k_open_ms_max), true);
  }
  const auto until = clock_type::now() + std::chrono::milliseconds(plan.kill_after_ms);
  lives = lives && read_events(child.from, bytes, until, false);
  ::kill(child.id, SIGKILL);
  read_events(child.from, bytes, clock_type::now() + std::chrono::hours(1), false);
  int status = 0;
  ::waitpid(child.id, &status, 0);
  ::close(child.from);
  if (!lives || !WIFSIGNALED(status)) return "the process ended by itself: " + bytes.substr(0, 200);

  life said;
  for (std::size_t at = 0; at + sizeof(crash_event) <= bytes.size(); at += sizeof(crash_event)) {
    crash_event event;
    std::copy_n(bytes.data() + at, sizeof event, reinterpret_cast<char*>(&event));
    said.add(event);
  }
  if (said.refused) return "the ledger refused something";
  tally_.killed_in_open += said.opened ? 0 : 1;
  return check(said);
}

std::string crash_run::check(const life& said) {
  contents now;
  {
    const auto opened = store::open({.folder = folder_, .write_buffer_bytes = std::size_t{16} << 20}, now);
    if (!opened) return opened.error().text;
  }
  auto wrong = check_reservations(said, now);
  if (wrong.empty()) wrong = check_keys(said, now);
  before_ = std::move(now);
  return wrong;
}

// What was open before is charged as a whole or not at all; without that nothing else can have been written.
std::string crash_run::check_charged(const contents& now) {
  std::uint64_t still_open = 0;
  for (const auto& [id, reservation] : before_.sums.open())
    still_open += now.sums.open().contains(id) ? 1 : 0;
  const auto charged = now.sums.state().charged - before_.sums.state().charged;
  tally_.charged += charged;
  if (still_open + charged != before_.sums.open().size())
    return "left-over reservations were not all charged";
  const bool worked = charged != 0 || now.sums.state().next_id != before_.sums.state().next_id;
  if (worked && still_open != 0) return "left-over reservations were charged in part";
  if (now.sums.state().voided != 0) return "a reservation was voided";
  return "";
}

std::string crash_run::check_reservations(const life& said, const contents& now) {
  if (auto wrong = check_charged(now); !wrong.empty()) return wrong;
  const auto first_id = before_.sums.state().next_id;
  const auto recovered = now.sums.state().next_id - first_id;
  if (recovered > said.reservations.size()) return "more reservations than were issued";
  std::map<std::string, usd_nano> spent;
  for (const auto& [name, account] : before_.sums.accounts()) spent[name] = account.sums.spent;
  for (const auto& [id, reservation] : before_.sums.open()) {
    if (!now.sums.open().contains(id)) spent[reservation->account] += reservation->amount;
  }
  for (std::size_t i = 0; i < said.reservations.size(); ++i) {
    const auto& one = said.reservations[i];
    const auto account = fmt::format("key_{}", one.account);
    ++tally_.issued;
    tally_.acknowledged += one.durable ? 1 : 0;
    tally_.recovered_more += i < recovered && !one.durable ? 1 : 0;
    if (i >= recovered) {
      if (one.durable || one.settle_durable) return fmt::format("acknowledged reservation {} is lost", i);
      continue;
    }
    const auto open = now.sums.open().find(first_id + i);
    if (open == now.sums.open().end()) {
      if (!one.actual) return fmt::format("reservation {} ended, and nobody settled it", i);
      spent[account] += *one.actual;
      continue;
    }
    if (one.settle_durable) return fmt::format("the acknowledged end of reservation {} is lost", i);
    const auto& r = *open->second;
    if (r.account != account || r.amount != one.amount || r.request_id != std::to_string(i)) {
      return fmt::format("reservation {} is another than was made", i);
    }
  }
  for (const auto& [name, account] : now.sums.accounts()) {
    if (account.sums.spent != spent[name]) {
      return fmt::format("{} spent {}, the disk says {}", name, spent[name], account.sums.spent);
    }
  }
  return "";
}

std::string crash_run::check_keys(const life& said, const contents& now) {
  for (const auto& [number, puts] : said.puts) {
    const auto id = fmt::format("key_{}", number);
    const auto was = before_.keys.find(id);
    const auto is = now.keys.find(id);
    const bool was_revoked = was != before_.keys.end() && was->second.revoked;
    std::set<std::int64_t> allowed{was == before_.keys.end() ? 0 : was->second.created_s};
    for (const auto& put : puts) {
      generation_ = std::max(generation_, put.generation);
      if (was_revoked && !put.revoked) continue;
      if (put.durable) allowed.clear();
      allowed.insert(put.generation);
    }
    if (!allowed.contains(is == now.keys.end() ? 0 : is->second.created_s)) {
      return fmt::format("{} is of a generation that was not the last acknowledged or later", id);
    }
    if (was_revoked && !is->second.revoked) return id + " lives again";
  }
  return "";
}

}  // namespace weir::gateway::ledger
