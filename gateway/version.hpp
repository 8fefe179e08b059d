// The version of this build, from CMake's project(). Constant; any thread.
#pragma once

namespace weir::gateway {

inline constexpr const char* k_version = WEIR_VERSION;

}  // namespace weir::gateway
