// Spans as the body of OTLP/HTTP's POST /v1/traces in JSON: lowerCamelCase keys, ids in hexadecimal, enums as
// numbers, 64-bit numbers as decimal strings (opentelemetry-proto). Pure; any thread.
#pragma once

#include <span>
#include <string>

#include "gateway/trace/span.hpp"

namespace weir::gateway::trace {

struct resource {
  std::string service_name = "weir";
  std::string service_version;
  std::string instance;  // random, of this process
};

std::string to_otlp_json(const resource& of, std::span<const span> spans);

}  // namespace weir::gateway::trace
