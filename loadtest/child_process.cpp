#include "loadtest/child_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

namespace weir::loadtest {

namespace {

using clock = std::chrono::steady_clock;

constexpr std::chrono::seconds k_end_timeout{10};
constexpr std::chrono::milliseconds k_end_poll{5};
constexpr int k_exit_not_started = 127;
constexpr std::size_t k_read_bytes = 4096;

std::string fault(const std::string& what) {
  return fmt::format("{}: {}", what, std::strerror(errno));
}

}  // namespace

std::expected<child_process, std::string> child_process::start(const std::vector<std::string>& argv,
                                                               const std::filesystem::path& log) {
  // The child of a fork may not allocate, so all is made before.
  std::vector<char*> arguments;
  for (const auto& one : argv) arguments.push_back(const_cast<char*>(one.c_str()));
  arguments.push_back(nullptr);
  if (::access(argv[0].c_str(), X_OK) != 0) return std::unexpected(fault(argv[0]));
  const int errors = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (errors < 0) return std::unexpected(fault(log.string()));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    const auto why = fault("pipe");
    ::close(errors);
    return std::unexpected(why);
  }
  const auto parent = ::getpid();
  const auto pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(k_exit_not_started);
    ::dup2(ends[1], STDOUT_FILENO);
    ::dup2(errors, STDERR_FILENO);
    ::execv(arguments[0], arguments.data());
    ::_exit(k_exit_not_started);
  }
  ::close(ends[1]);
  ::close(errors);
  if (pid < 0) {
    const auto why = fault("fork");
    ::close(ends[0]);
    return std::unexpected(why);
  }
  return child_process(pid, ends[0]);
}

child_process::~child_process() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGTERM);
  const auto limit = clock::now() + k_end_timeout;
  while (::waitpid(pid_, nullptr, WNOHANG) == 0) {
    if (clock::now() > limit) ::kill(pid_, SIGKILL);
    std::this_thread::sleep_for(k_end_poll);
  }
  ::close(out_);
}

std::expected<std::string, std::string> child_process::read_line(std::string_view prefix,
                                                                 std::chrono::milliseconds timeout) {
  const auto limit = clock::now() + timeout;
  for (;;) {
    for (auto end = said_.find('\n'); end != std::string::npos; end = said_.find('\n')) {
      const auto line = said_.substr(0, end);
      said_.erase(0, end + 1);
      if (line.starts_with(prefix)) return line.substr(prefix.size());
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(limit - clock::now());
    pollfd ready{out_, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) == 0)
      return std::unexpected(fmt::format("it did not say '{}' in {} ms", prefix, timeout.count()));
    char bytes[k_read_bytes];
    const auto got = ::read(out_, bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::unexpected("it ended");
    said_.append(bytes, static_cast<std::size_t>(got));
  }
}

}  // namespace weir::loadtest
