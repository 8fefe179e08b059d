#include "engine/parallel/follower.hpp"

#include <exception>
#include <string>

#include "engine/parallel/state_norms.hpp"

namespace weir::engine::parallel {

namespace {

// False: there is no more.
result<bool> do_next(communicator& ranks, runner::model_runner& own, const step_limits& limits,
                     std::vector<std::byte>& bytes) {
  ranks.broadcast(bytes);
  const auto message = read_message(bytes, limits);
  if (!message) return std::unexpected(message.error());
  own.copy(message->copies);
  if (message->what == order::stop) return false;
  if (message->what == order::norms) joint_norms(ranks, own.kda_state_norms(message->slot));
  if (message->what == order::step && message->work.row_count() > 0) own.run(message->work);
  return true;
}

}  // namespace

result<void> follow(communicator& ranks, runner::model_runner& own, const step_limits& limits) {
  std::vector<std::byte> bytes;
  std::string why;
  try {
    for (;;) {
      const auto more = do_next(ranks, own, limits, bytes);
      if (more && *more) continue;
      if (more) return {};
      why = more.error().detail;
      break;
    }
  } catch (const rank_lost& lost) {
    return fail(errc::lost, lost.what());
  } catch (const std::exception& fault) {
    why = fault.what();
  }
  ranks.abandon();
  return fail(errc::lost, why);
}

}  // namespace weir::engine::parallel
