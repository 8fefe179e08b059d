#include "gateway/shared/store_link.hpp"

namespace weir::gateway::shared {

std::expected<std::unique_ptr<store_link>, std::string> store_link::dial(const store_address&, link_time,
                                                                         const std::atomic<bool>&) {
  return std::unexpected("this weir was built without Redis");
}

}  // namespace weir::gateway::shared
