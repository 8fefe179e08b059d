// A closed loop of keep-alive requests at one target for a set time: plain sockets, one thread, as little
// work of its own as can be.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstdint>
#include <string>

#include "loadtest/bench/scenario.hpp"
#include "loadtest/histogram.hpp"

namespace weir::loadtest::bench {

struct load_target {
  std::string name;
  boost::asio::ip::tcp::endpoint endpoint;
  int pid = 0;  // 0: its use of the machine is not known
};

struct load_options {
  std::string model = "mock";
  std::string api_key;
  std::chrono::milliseconds warm_up{300};          // before the measured time
  std::chrono::milliseconds paced_warm_up{2'000};  // a whole stream at its pace
  std::chrono::milliseconds measured{2'000};
};

struct load_result {
  double seconds = 0;
  std::int64_t requests = 0;  // answered in the measured time
  std::int64_t events = 0;    // received in the measured time
  std::int64_t failures = 0;  // in all
  std::string failure;        // the first
  histogram times;            // of whole answers, or of gaps between events where they are paced
  double cpu_s = 0;
  std::int64_t rss_bytes = 0;
};

load_result run_load(const scenario& of, const load_target& at, const load_options& options);

}  // namespace weir::loadtest::bench
