// Loads the configuration at start and again on demand: the new one is applied whole or refused whole, and
// running requests keep the snapshot that they started with. Controlling thread only.
#pragma once

#include <expected>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "gateway/fleet.hpp"

namespace weir::gateway {

class reloader final {
 public:
  // `holder` and `services` outlive the reloader.
  reloader(std::filesystem::path config_file, snapshot_holder& holder, fleet_services& services)
      : config_file_(std::move(config_file)), holder_(holder), services_(services) {}

  std::expected<void, std::string> start(const config::gateway_config& config);

  // Reads the file again. On any fault the old configuration stays and the faults are logged. Returns whether
  // it was applied.
  bool run();

  // Lets go of engines that a reload removed, once their last request ended.
  void sweep();

 private:
  void keep_pairs(const config::shadow_config& config);
  void apply(std::shared_ptr<const snapshot> next);

  std::filesystem::path config_file_;
  snapshot_holder& holder_;
  fleet_services& services_;
  std::vector<std::shared_ptr<upstream::engine_upstream>> retired_;
};

// What a reload cannot change, named by key; empty when it can be applied.
std::string needs_restart(const config::gateway_config& running, const config::gateway_config& wanted);

}  // namespace weir::gateway
