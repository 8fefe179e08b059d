// The description of the admin API as an OpenAPI 3.1 document: openapi.json beside this, part of the binary.
#pragma once

#include <string_view>

namespace weir::gateway::admin {

std::string_view openapi_json() noexcept;

}  // namespace weir::gateway::admin
