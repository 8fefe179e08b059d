// configs/costs/example.yaml, as part of the binary. Any thread.
#pragma once

#include <string_view>

namespace weir::gateway::costs {

std::string_view example_yaml() noexcept;

}  // namespace weir::gateway::costs
