#include "gateway/cli/ranks.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <system_error>
#include <thread>
#include <vector>

#include "engine/parallel/communicator.hpp"
#include "engine/parallel/group.hpp"
#include "engine/parallel/ranks.hpp"
#include "gateway/cli/commands.hpp"
#include "gateway/config/environment.hpp"

namespace weir::gateway::cli {

namespace {

using engine::ranks_config;

constexpr std::chrono::seconds k_end_patience{5};  // for ranks that were told to stop
constexpr int k_not_started = 127;

// As they were given, the program's name first.
std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> out;
  for (std::size_t at = 0; at < all.size(); at += out.back().size() + 1) out.emplace_back(all.c_str() + at);
  return out;
}

std::vector<std::string> environment_of(const ranks_config& place) {
  std::vector<std::string> out = {
      fmt::format("RANK={}", place.rank), fmt::format("WORLD_SIZE={}", place.size),
      fmt::format("LOCAL_RANK={}", place.rank), fmt::format("LOCAL_WORLD_SIZE={}", place.size),
      fmt::format("MASTER_PORT={}", place.master_port)};
  const std::size_t ours = out.size();
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string entry = *one;
    bool known = false;
    for (std::size_t i = 0; i < ours; ++i) {
      const auto name = out[i].substr(0, out[i].find('=') + 1);
      known = known || entry.starts_with(name);
    }
    if (!known) out.push_back(entry);
  }
  return out;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// Ranks 1 and up as processes of this one.
class followers final {
 public:
  explicit followers(const ranks_config& leader) {
    auto arguments = own_arguments();
    const auto argv = pointers_to(arguments);
    for (int rank = 1; rank < leader.size; ++rank) {
      ranks_config place = leader;
      place.rank = rank;
      auto variables = environment_of(place);
      const auto envp = pointers_to(variables);
      const pid_t parent = ::getpid();
      const pid_t pid = ::fork();
      if (pid == 0) become(argv, envp, parent);
      if (pid < 0) throw std::system_error(errno, std::generic_category(), "a rank could not be started");
      pids_.push_back(pid);
    }
  }
  ~followers() {
    const auto until = std::chrono::steady_clock::now() + k_end_patience;
    for (const pid_t pid : pids_) {
      while (::waitpid(pid, nullptr, WNOHANG) == 0) {
        if (std::chrono::steady_clock::now() > until) ::kill(pid, SIGKILL);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    }
  }
  followers(const followers&) = delete;
  followers& operator=(const followers&) = delete;

  const std::vector<pid_t>& pids() const noexcept { return pids_; }

  // Rank 0 ended before it told them anything.
  void end() noexcept {
    for (const pid_t pid : pids_) ::kill(pid, SIGKILL);
  }

 private:
  // In the child: only what may be called between fork and exec.
  [[noreturn]] static void become(const std::vector<char*>& argv, const std::vector<char*>& envp,
                                  pid_t parent) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(k_not_started);
    const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nothing >= 0) {
      ::dup2(nothing, STDIN_FILENO);
      ::dup2(nothing, STDOUT_FILENO);
    }
    ::execve("/proc/self/exe", argv.data(), envp.data());
    ::_exit(k_not_started);
  }

  std::vector<pid_t> pids_;
};

// Until all ranks have come together: ends the process when one that was started here has ended, and leaves
// signals to end it as they do by default, whatever other threads do with them.
class meeting_watch final {
 public:
  explicit meeting_watch(const ranked_command& of, std::vector<pid_t> pids)
      : thread_([this, name = std::string(of.name), all = std::move(pids)] { watch(name, all); }) {}
  ~meeting_watch() { over(); }
  meeting_watch(const meeting_watch&) = delete;
  meeting_watch& operator=(const meeting_watch&) = delete;

  void over() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
  }

 private:
  void watch(const std::string& name, const std::vector<pid_t>& pids) const {
    for (; !over_; std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
      for (std::size_t i = 0; i < pids.size(); ++i) {
        int status = 0;
        if (::waitpid(pids[i], &status, WNOHANG) != pids[i] || over_) continue;
        fmt::print(stderr, "weir {}: rank {} ended before all had come together ({} {})\n", name, i + 1,
                   WIFSIGNALED(status) ? "signal" : "exit code",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        ::_exit(k_failed);  // the others end with this process
      }
    }
  }

  std::atomic<bool> over_{false};
  std::thread thread_;
};

// A name under which no ranks meet now: 16 random bits, beyond what systems use.
std::uint16_t free_master_port(uid_t user) {
  std::random_device random;
  for (;;) {
    const auto port = static_cast<std::uint16_t>(1024 + random() % (65536 - 1024));
    const auto path = fmt::format("/dev/shm/weir-{}-{}", user, port);
    if (::access(path.c_str(), F_OK) != 0) return port;
  }
}

int refuse(const ranked_command& of, const std::string& what) {
  fmt::print(stderr, "weir {}: {}\n", of.name, what);
  return k_bad_config;
}

int refuse(const ranked_command& of, const engine::error& why) {
  const bool asked_wrong = why.code == engine::errc::bad_request || why.code == engine::errc::unsupported;
  refuse(of, why.detail);
  return asked_wrong ? k_bad_config : k_failed;
}

// Signals for all are meant for rank 0, which tells when it is over.
int follow(const ranked_command& of, const ranks_config& place) {
  engine::parallel::when_met([] {
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) std::signal(signal, SIG_IGN);
  });
  const auto followed = of.follow(place);
  if (followed) return k_ok;
  fmt::print(stderr, "weir {}: rank {}: {}\n", of.name, place.rank, followed.error().detail);
  return k_failed;
}

}  // namespace

void add_ranks_options(CLI::App& app, ranks_options& options) {
  app.add_option(
         "--ranks", options.count,
         "Divide the model among so many processes of this machine, which this one starts; a launcher "
         "(torchrun, mpirun, srun) that started them itself says the number")
      ->check(CLI::Range(1, engine::parallel::k_ranks_max));
  app.add_option(
         "--split", options.split,
         "What ranks divide: tensor (heads and widths), or expert (routed experts by number, the rest as "
         "tensor does)")
      ->check(CLI::IsMember({"tensor", "expert"}))
      ->capture_default_str();
}

int run_ranks(const ranks_options& options, const ranked_command& of) {
  const auto found = engine::parallel::find_world(config::environment_variable);
  if (!found) return refuse(of, found.error());
  ranks_config place = *found;
  place.split = *engine::split_kind_of(options.split);
  const auto wanted = static_cast<int>(options.count);
  const bool launched = place.size > 1;
  if (launched && wanted > 0 && wanted != place.size) {
    return refuse(of,
                  fmt::format("--ranks: {}, but a launcher started {}: leave it out", wanted, place.size));
  }
  if (!launched && wanted > 1) {
    place.size = wanted;
    place.master_port = free_master_port(::geteuid());
  }
  if (place.size == 1) return of.lead(place);
  if (place.rank > 0) return follow(of, place);
  if (const auto good = of.check(place); !good) return refuse(of, good.error());
  std::optional<followers> others;
  if (!launched) others.emplace(place);
  meeting_watch watch(of, others ? others->pids() : std::vector<pid_t>{});
  engine::parallel::when_met([&watch] { watch.over(); });
  const int code = of.lead(place);
  watch.over();
  if (code != k_ok && others) others->end();
  return code;
}

}  // namespace weir::gateway::cli
