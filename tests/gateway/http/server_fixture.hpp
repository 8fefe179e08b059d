// A running server with the echo dispatcher on a free port, and a wait for what its threads do.
#pragma once

#include <chrono>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "gateway/http/server.hpp"
#include "tests/gateway/http/echo_dispatcher.hpp"

namespace weir::gateway::http::testing {

struct server_fixture {
  echo_dispatcher handler;
  std::vector<std::string> faults;
  std::mutex faults_mutex;
  server edge;
  std::uint16_t port = 0;

  explicit server_fixture(http_settings settings = {}, server_options options = {.thread_count = 2},
                          std::optional<tls_files> tls = std::nullopt)
      : edge(options, [this](std::string_view what) {
          const std::lock_guard lock(faults_mutex);
          faults.emplace_back(what);
        }) {
    listen_spec spec;
    spec.handler = &handler;
    spec.settings = settings;
    spec.tls = std::move(tls);
    const auto bound = edge.listen(spec);
    if (!bound) throw std::runtime_error(bound.error());
    port = bound->port;
    edge.start();
  }
  ~server_fixture() { edge.stop(); }

  std::vector<std::string> faults_seen() {
    const std::lock_guard lock(faults_mutex);
    return faults;
  }
};

// Polls: other threads' progress has no other signal here. The bound only ends a test that fails anyway.
template <class F>
bool eventually(const F& condition) {
  for (int i = 0; i < 20'000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

}  // namespace weir::gateway::http::testing
