// Arbitrary bytes as a configuration file: parsing and the rules between fields end, every fault names the
// file and says something, and an accepted configuration keeps its ranges.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "gateway/config/load.hpp"

using namespace weir::gateway::config;

namespace {

bool explained(const std::vector<fault>& faults, const std::filesystem::path& file) {
  for (const auto& f : faults) {
    if (f.file != file || f.message.empty() || f.at.line < 0 || f.at.column < 0) return false;
  }
  return true;
}

bool sane(const gateway_config& config) {
  const auto& l = config.limits;
  for (const auto& t : config.targets) {
    if (t.engine.sequences < 1 || t.engine.kv_bytes < 1 || t.engine.queue < 1) return false;
  }
  return l.body_bytes >= 1024 && l.body_budget_bytes >= 1024 && l.connections >= 1 && l.drain_grace_ms >= 0 &&
         config.io_threads >= 0 && config.io_threads <= 1024;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::filesystem::path file = "/etc/weir/weir.yaml";
  const auto config = parse(std::string_view(reinterpret_cast<const char*>(data), size), file);
  if (!config) {
    if (config.error().empty() || !explained(config.error(), file)) std::abort();
    return 0;
  }
  if (!sane(*config) || !explained(validate(*config, file, false), file)) std::abort();
  return 0;
}
