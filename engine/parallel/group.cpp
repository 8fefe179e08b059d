#include "engine/parallel/group.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <span>
#include <vector>

#include "engine/parallel/shm_communicator.hpp"

namespace weir::engine::parallel {

namespace {

// Equal for equal programs, as far as one machine's are told apart by what is cheap to see.
std::string build_of_this_program() {
  struct stat facts {};
  if (::stat("/proc/self/exe", &facts) != 0) return "unknown";
  return std::to_string(facts.st_size) + " bytes of " + std::to_string(facts.st_mtim.tv_sec);
}

std::uint64_t digest_of(const std::string& text) {
  std::uint64_t out = 0xCBF2'9CE4'8422'2325;  // FNV-1a
  for (const char c : text) out = (out ^ static_cast<unsigned char>(c)) * 0x100'0000'01B3;
  return out;
}

}  // namespace

result<std::unique_ptr<communicator>> join_group(const ranks_config& place, const std::string& settings) {
  if (place.size == 1) return nullptr;
  shm_options options;
  options.rank = place.rank;
  options.size = place.size;
  options.name = "weir-" + std::to_string(::geteuid()) + "-" + std::to_string(place.master_port);
  options.build = build_of_this_program();
  auto joined = join_by_shared_memory(options);
  if (!joined) return joined;
  const std::uint64_t mine = digest_of(settings);
  std::vector<std::uint64_t> all(static_cast<std::size_t>(place.size));
  try {
    (*joined)->exchange(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)),
                        patience::step);
  } catch (const rank_lost& lost) {
    return fail(errc::lost, lost.what());
  }
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    return fail(errc::bad_request, "rank " + std::to_string(rank) +
                                       " has another model or other settings than rank 0: " +
                                       (place.rank == 0 || static_cast<std::size_t>(place.rank) == rank
                                            ? "rank " + std::to_string(place.rank) + " has " + settings
                                            : std::string("all must be started alike")));
  }
  return joined;
}

result<void> wait_for_all(communicator& ranks) {
  try {
    ranks.exchange({}, {}, patience::idle);
  } catch (const rank_lost& lost) {
    return fail(errc::lost, lost.what());
  }
  return {};
}

}  // namespace weir::engine::parallel
