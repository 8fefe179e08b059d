#include "engine/parallel/group.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <span>
#include <utility>
#include <vector>

#include "engine/parallel/shm_communicator.hpp"
#include "engine/parallel/tcp_communicator.hpp"
#include "engine/splitmix.hpp"

namespace weir::engine::parallel {

namespace {

// Equal for equal programs, on whichever machine: a digest of the file.
std::string build_of_this_program() {
  std::FILE* const file = std::fopen("/proc/self/exe", "re");
  if (file == nullptr) return "unknown";
  std::uint64_t digest = 0;
  std::array<std::uint64_t, 8192> words{};
  std::size_t read = 0;
  while ((read = std::fread(words.data(), 1, sizeof words, file)) > 0) {
    std::fill(reinterpret_cast<std::byte*>(words.data()) + read,
              reinterpret_cast<std::byte*>(words.data() + words.size()), std::byte{});
    for (const std::uint64_t word : words) digest = mix_all_bits(digest + word + k_splitmix_step);
  }
  std::fclose(file);
  return std::to_string(digest);
}

std::uint64_t digest_of(const std::string& text) {
  std::uint64_t out = 0xCBF2'9CE4'8422'2325;  // FNV-1a
  for (const char c : text) out = (out ^ static_cast<unsigned char>(c)) * 0x100'0000'01B3;
  return out;
}

std::function<void()>& the_hook() {
  static std::function<void()> out;
  return out;
}

result<std::unique_ptr<communicator>> meet(const ranks_config& place) {
  if (!place.master_host.empty()) {
    tcp_options options;
    options.rank = place.rank;
    options.size = place.size;
    options.host = place.master_host;
    options.port = place.master_port;
    options.build = build_of_this_program();
    return join_by_tcp(options);
  }
  shm_options options;
  options.rank = place.rank;
  options.size = place.size;
  options.name = "weir-" + std::to_string(::geteuid()) + "-" + std::to_string(place.master_port);
  options.build = build_of_this_program();
  return join_by_shared_memory(options);
}

}  // namespace

result<std::unique_ptr<communicator>> join_group(const ranks_config& place, const std::string& settings) {
  if (place.size == 1) return nullptr;
  auto joined = meet(place);
  if (!joined) return joined;
  if (auto& call = the_hook()) std::exchange(call, nullptr)();
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

void when_met(std::function<void()> call) {
  the_hook() = std::move(call);
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
