// One timed piece of a request as a collector wants it: the request itself, or an attempt at a target. Names
// are OpenTelemetry's GenAI conventions v1.41 where they have one, else weir.*; never a prompt, an answer or
// a key. Values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "gateway/trace/trace_context.hpp"

namespace weir::gateway::trace {

// Names are literals.
using attribute = std::pair<std::string_view, std::variant<std::string, std::int64_t, double, bool>>;

enum class span_kind : std::uint8_t { server = 2, client = 3 };  // as OTLP counts them

struct span {
  trace_id trace{};
  span_id id{};
  span_id parent{};   // zeros: none
  std::string state;  // tracestate
  std::string name;
  span_kind kind = span_kind::server;
  std::int64_t begun_unix_ns = 0;
  std::int64_t ended_unix_ns = 0;
  std::vector<attribute> attributes;
  std::string error;  // a code; empty: it went well
};

}  // namespace weir::gateway::trace
