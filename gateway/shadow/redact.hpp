// A request without the fields that must not leave. Every other byte stays as the client sent it. Pure; any
// thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "gateway/shadow/field_path.hpp"

namespace weir::gateway::shadow {

// Takes the members that `paths` name out of `body`, however their keys are written. A path that leads
// nowhere changes nothing. REQUIRES: one valid JSON object without a key twice, as read_generation_call
// accepts it.
std::string redact(std::string_view body, std::span<const field_path> paths);

}  // namespace weir::gateway::shadow
