// Reads again and again what targets publish of their load, on one thread of its own, and reports it to their
// states. A scrape that fails changes nothing but its counter: the last report stays.
//
// Scrapes take none of a target's places and wait for nobody: each has the target's interval for its
// deadline, k_scrape_time_max at most. Threads: follow() and destruction on any one thread; destruction stops
// within k_scraper_stop_wait, whatever the targets do.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gateway/observe/route_counters.hpp"
#include "gateway/route/target_state.hpp"
#include "gateway/upstream/origin.hpp"

namespace weir::gateway::route {

inline constexpr std::chrono::milliseconds k_scrape_time_max{2'000};
inline constexpr std::chrono::milliseconds k_scraper_stop_wait{100};
inline constexpr std::chrono::seconds k_scrape_complaint_period{60};  // of one target's failures in the log

struct scraped_target {
  std::shared_ptr<const upstream::origin> at;  // address, TLS and credential; the path is the host's own
  std::weak_ptr<target_state> state;           // reported to as long as it lives
  std::string path;
  std::chrono::milliseconds interval;
  observe::scrape_counters counters;
};

class scraper final {
 public:
  // Called on the scraper's thread with the name of a target that has begun anew with an empty cache.
  using restart_handler = std::function<void(const std::string& target)>;

  explicit scraper(restart_handler restarted);
  ~scraper();
  scraper(const scraper&) = delete;
  scraper& operator=(const scraper&) = delete;

  // These, and no others, from now on. Those that were followed as they are go on undisturbed.
  void follow(std::vector<scraped_target> targets);

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace weir::gateway::route
