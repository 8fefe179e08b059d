// From a request that was read to its relay, for every path that generates. One request, one thread.
#pragma once

#include <string_view>

#include "gateway/api/endpoints.hpp"
#include "gateway/api/generation_call.hpp"

namespace weir::gateway::api {

// Relays it, or answers why it could not be read. `id_prefix`: a literal.
task<void> serve_call(request_context& context, result<generation_call> call, std::string_view id_prefix);

}  // namespace weir::gateway::api
