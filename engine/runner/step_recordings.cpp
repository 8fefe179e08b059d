#include "engine/runner/step_recordings.hpp"

namespace weir::engine::runner {

void step_recordings::run(const step_shape& shape, std::uint64_t memory, const std::function<void()>& work) {
  if (memory != memory_ || known_.size() >= k_recordings_max) known_.clear();
  memory_ = memory;
  const auto [it, fresh] = known_.try_emplace(shape);
  if (fresh) return work();
  if (it->second == nullptr) {
    device_.begin_recording();
    try {
      work();
    } catch (...) {
      device_.end_recording();
      throw;
    }
    it->second = device_.end_recording();
  }
  it->second->replay();
  ++replayed_;
}

}  // namespace weir::engine::runner
