#include "gateway/observe/log.hpp"

#include <spdlog/async.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <mutex>

namespace weir::gateway::observe {

namespace {

constexpr std::size_t k_queue_lines_max = 8192;

struct log_set {
  std::shared_ptr<spdlog::logger> messages;
  std::shared_ptr<spdlog::logger> access;
};

log_set make_logs() {
  spdlog::init_thread_pool(k_queue_lines_max, 1);
  const auto make = [](const char* name, const char* pattern) {
    auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    auto logger = std::make_shared<spdlog::async_logger>(name, std::move(sink), spdlog::thread_pool(),
                                                         spdlog::async_overflow_policy::overrun_oldest);
    logger->set_pattern(pattern, spdlog::pattern_time_type::utc);
    return logger;
  };
  log_set logs{make("weir", "%Y-%m-%dT%H:%M:%S.%eZ %l %v"), make("access", "%v")};
  spdlog::set_default_logger(logs.messages);
  return logs;
}

log_set& logs() {
  static log_set set = make_logs();
  return set;
}

}  // namespace

void set_up_logs(std::string_view level) {
  logs().messages->set_level(spdlog::level::from_str(std::string(level)));
}

void flush_logs() {
  logs().messages->flush();
  logs().access->flush();
}

spdlog::logger& access_logger() {
  return *logs().access;
}

}  // namespace weir::gateway::observe
