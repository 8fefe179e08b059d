// A program that we start, wait for and end: its standard output is read line by line until it has said what
// is waited for, its standard error goes to a file. It gets SIGTERM with the handle, and when our process
// dies. One thread.
#pragma once

#include <chrono>
#include <expected>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace weir::loadtest {

class child_process final {
 public:
  // `argv[0]`: the program's path. Whatever it writes to standard error is appended to `log`.
  // The error is a sentence.
  static std::expected<child_process, std::string> start(const std::vector<std::string>& argv,
                                                         const std::filesystem::path& log);

  child_process(child_process&& other) noexcept
      : pid_(std::exchange(other.pid_, 0)), out_(std::exchange(other.out_, -1)) {
    said_ = std::move(other.said_);
  }
  child_process& operator=(child_process&&) = delete;
  ~child_process();

  // What follows `prefix` in the first line that starts with it. Lines before it are passed over for good.
  // The error says whether it ended or took too long.
  std::expected<std::string, std::string> read_line(std::string_view prefix,
                                                    std::chrono::milliseconds timeout);

 private:
  child_process(int pid, int out) : pid_(pid), out_(out) {}

  int pid_;
  int out_;
  std::string said_;  // not yet a whole line
};

}  // namespace weir::loadtest
