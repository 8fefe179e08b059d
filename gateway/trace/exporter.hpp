// Sends finished spans to a collector over OTLP/HTTP, on one thread of its own: in batches, each a second or
// when k_batch_spans wait. Who hands a span in waits for nobody; when k_spans_max wait, or the collector does
// not take a batch within k_tries, spans are dropped and counted. Only 429, 502, 503 and 504 are tried again,
// as the protocol has it.
//
// Threads: take() any; construction and destruction one; destruction tries to deliver what waits, for at most
// k_last_wait.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "gateway/trace/otlp_json.hpp"
#include "gateway/trace/span.hpp"
#include "gateway/upstream/origin.hpp"

namespace weir::gateway::trace {

inline constexpr std::size_t k_spans_max = 16'384;  // some 16 MiB
inline constexpr std::size_t k_batch_spans = 512;
inline constexpr int k_tries = 4;
inline constexpr std::chrono::milliseconds k_batch_wait{1'000};
inline constexpr std::chrono::milliseconds k_post_time{5'000};
inline constexpr std::chrono::milliseconds k_last_wait{1'000};

struct export_counts {
  std::atomic<std::uint64_t> sent = 0;
  std::atomic<std::uint64_t> dropped = 0;
};

class exporter final {
 public:
  // `path`: behind the collector's host, as /v1/traces. `headers`: header lines of every request, a token of
  // the operator's say.
  exporter(std::shared_ptr<const upstream::origin> collector, std::string path, std::string headers,
           resource about);
  ~exporter();
  exporter(const exporter&) = delete;
  exporter& operator=(const exporter&) = delete;

  void take(span done);
  const export_counts& counts() const noexcept;

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace weir::gateway::trace
