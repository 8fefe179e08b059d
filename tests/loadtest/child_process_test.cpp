#include "loadtest/child_process.hpp"

#include <stdlib.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

namespace weir::loadtest {
namespace {

constexpr std::chrono::seconds k_patience{20};

struct folder {
  folder() {
    auto pattern = (std::filesystem::temp_directory_path() / "weir-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) != nullptr) path = pattern;
  }
  ~folder() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

std::vector<std::string> shell(const std::string& script) {
  return {"/bin/sh", "-c", script};
}

TEST_CASE("lines that are waited for are found, others passed over; errors go to the log") {
  const folder dir;
  auto child = child_process::start(
      shell("echo other; echo oops >&2; echo 'listening on x'; echo 'admin on y'; sleep 60"),
      dir.path / "log");
  REQUIRE(child);
  CHECK(child->read_line("listening on ", k_patience) == "x");
  CHECK(child->read_line("admin on ", k_patience) == "y");
  CHECK(child->read_line("more", std::chrono::milliseconds(1)).error() == "it did not say 'more' in 1 ms");
  std::stringstream log;
  log << std::ifstream(dir.path / "log").rdbuf();
  CHECK(log.str() == "oops\n");
}

TEST_CASE("a program that ends or does not exist") {
  const folder dir;
  auto child = child_process::start(shell("echo bye; exit 3"), dir.path / "log");
  REQUIRE(child);
  CHECK(child->read_line("listening", k_patience).error() == "it ended");
  CHECK_FALSE(child_process::start({"/nowhere/program"}, dir.path / "log"));
  CHECK_FALSE(child_process::start(shell("true"), dir.path / "nowhere" / "log"));
}

TEST_CASE("it is asked to end with the handle") {
  const folder dir;
  {
    auto child = child_process::start(
        shell("trap 'echo ended >&2; exit 0' TERM; echo up; while :; do sleep 0.01; done"), dir.path / "log");
    REQUIRE(child);
    REQUIRE(child->read_line("up", k_patience));
  }
  std::string line;
  std::ifstream(dir.path / "log") >> line;
  CHECK(line == "ended");
}

}  // namespace
}  // namespace weir::loadtest
