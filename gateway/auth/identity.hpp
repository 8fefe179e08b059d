// Who sends a request, as everything behind authentication sees it. Cheap to copy; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "gateway/auth/key_terms.hpp"

namespace weir::gateway::limits {
class account;
}

namespace weir::gateway::auth {

struct identity {
  std::string name;  // of the key, for logs and metrics
  std::string tenant;
  std::int64_t weight = 1;                              // of the tenant, where tenants compete
  std::shared_ptr<const key_terms> terms = no_terms();  // never null
  std::shared_ptr<limits::account> account;             // null: without limits

  bool may_use(std::string_view model) const;

  // Of callers without a key: everything is allowed.
  static std::shared_ptr<const key_terms> no_terms();
};

// Of clients on this machine where they need no key.
identity loopback_identity();

}  // namespace weir::gateway::auth
