// What `weir keys` prints for people of the admin API's answers. Any thread.
#pragma once

#include <string>

namespace weir::gateway::cli {

// Each prints to standard output; false: the answer is not what it should be.
bool print_keys(const std::string& list);
bool print_key(const std::string& key);
// A key just made or rotated: the key itself alone on standard output, the rest on standard error.
bool print_new_key(const std::string& key);
bool print_tenants(const std::string& list);

}  // namespace weir::gateway::cli
