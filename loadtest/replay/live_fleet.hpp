// Mocks and a gateway in front of them, started for one live replay and ended with it: programs of their own
// on free loopback ports, nothing cached, nothing learnt.
#pragma once

#include <expected>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "loadtest/child_process.hpp"
#include "loadtest/endpoint.hpp"
#include "loadtest/replay/replay.hpp"

namespace weir::loadtest::replay {

inline constexpr const char* k_live_model = "replayed";  // the gateway's name for the mocks

struct fleet_options {
  std::filesystem::path gateway;    // the program
  std::filesystem::path mock;       // weir-loadtest itself
  std::filesystem::path tokenizer;  // the model's folder; empty: prompts are keyed by text
  std::string policy;               // as the gateway's configuration names it
  double speed = 10;                // all rates and waiting times are scaled by it
  replay_options replay;            // the fleet that is simulated otherwise
};

class live_fleet final {
 public:
  // The error is a sentence that names the folder of the logs.
  static std::expected<std::unique_ptr<live_fleet>, std::string> start(const fleet_options& options);
  explicit live_fleet(std::filesystem::path dir) : dir_(std::move(dir)) {}
  live_fleet(const live_fleet&) = delete;
  live_fleet& operator=(const live_fleet&) = delete;
  ~live_fleet();

  const http_address& gateway() const noexcept { return gateway_; }
  const http_address& admin() const noexcept { return admin_; }
  // Leaves the folder with the configuration and the logs behind.
  const std::filesystem::path& keep_logs() noexcept;

 private:
  std::expected<void, std::string> start_all(const fleet_options& options);

  const std::filesystem::path dir_;
  bool kept_ = false;
  http_address gateway_, admin_;
  std::vector<child_process> programs_;  // the gateway last
};

}  // namespace weir::loadtest::replay
