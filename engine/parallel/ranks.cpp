#include "engine/parallel/ranks.hpp"

#include <charconv>

#include "engine/parallel/communicator.hpp"

namespace weir::engine::parallel {

namespace {

// The names that one launcher uses. Those of the machine's own ranks may be null.
struct launcher {
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
  const char* machines;
  const char* only_with;  // a variable without which the others say nothing; null: none
};

constexpr launcher k_launchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE", nullptr},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", nullptr, nullptr},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", nullptr, nullptr},
    // A batch script has SLURM_PROCID too, and is none of the step's tasks.
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr, "SLURM_STEP_NUM_NODES",
     "SLURM_STEP_ID"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", nullptr, "SLURM_STEP_NUM_NODES", "SLURM_STEP_ID"},
};

constexpr std::size_t k_host_bytes_max = 253;  // of a name in DNS
constexpr std::uint16_t k_port_max = 65535;
constexpr std::int64_t k_world_max = 1 << 20;  // of any launcher; what may run here is less

struct place {
  const launcher* by = nullptr;
  std::int64_t rank = 0, size = 1;
};

std::string quoted(const char* name, const std::string& value) {
  return std::string(name) + "=" + value.substr(0, 40);
}

// Nothing: not set.
result<std::optional<std::int64_t>> read(const environment& variables, const char* name, std::int64_t least,
                                         std::int64_t most) {
  const auto text = name == nullptr ? std::nullopt : variables(name);
  if (!text) return std::nullopt;
  std::int64_t value = 0;
  const char* const end = text->data() + text->size();
  const auto [stop, ec] = std::from_chars(text->data(), end, value);
  if (ec != std::errc() || stop != end || value < least || value > most) {
    return fail(errc::bad_request, quoted(name, *text) + " is not a whole number from " +
                                       std::to_string(least) + " to " + std::to_string(most));
  }
  return value;
}

result<std::optional<place>> read_place(const environment& variables, const launcher& by) {
  if (by.only_with != nullptr && !variables(by.only_with)) return std::nullopt;
  const auto rank = read(variables, by.rank, 0, k_world_max - 1);
  if (!rank) return std::unexpected(rank.error());
  const auto size = read(variables, by.size, 1, k_world_max);
  if (!size) return std::unexpected(size.error());
  if (!*rank && !*size) return std::nullopt;
  if (!*rank || !*size) {
    // Slurm's has two names for the size, of which one is enough.
    if (by.only_with != nullptr) return std::nullopt;
    return fail(errc::bad_request, std::string(*rank ? by.rank : by.size) + " is set and " +
                                       (*rank ? by.size : by.rank) + " is not: a launcher sets both");
  }
  if (**rank >= **size) {
    return fail(errc::bad_request, std::string(by.rank) + "=" + std::to_string(**rank) + " is no rank of " +
                                       by.size + "=" + std::to_string(**size));
  }
  return place{&by, **rank, **size};
}

struct spread {
  int local_rank = 0;
  bool one_machine = true;
};

// Where the launcher does not say, ranks are on one machine unless they are told to meet at another.
result<spread> read_spread(const environment& variables, const place& at) {
  const auto local = read(variables, at.by->local_rank, 0, k_world_max - 1);
  if (!local) return std::unexpected(local.error());
  const auto here = read(variables, at.by->local_size, 1, k_world_max);
  if (!here) return std::unexpected(here.error());
  const auto machines = read(variables, at.by->machines, 1, k_world_max);
  if (!machines) return std::unexpected(machines.error());
  if (*local && **local > at.rank) {
    return fail(errc::bad_request, std::string(at.by->local_rank) + "=" + std::to_string(**local) +
                                       " is more than " + at.by->rank + "=" + std::to_string(at.rank));
  }
  if (*here && **here > at.size) {
    return fail(errc::bad_request, std::string(at.by->local_size) + "=" + std::to_string(**here) +
                                       " is more than " + at.by->size + "=" + std::to_string(at.size));
  }
  spread out{static_cast<int>(local->value_or(at.rank)), true};
  if (*here) {
    out.one_machine = **here == at.size;
  } else if (*machines) {
    out.one_machine = **machines == 1;
  } else {
    const auto host = variables("MASTER_ADDR").value_or("localhost");
    const bool meets_here = host == "localhost" || host.starts_with("127.") || host == "::1";
    out.one_machine = out.local_rank == at.rank && meets_here;
  }
  return out;
}

result<void> check_agreement(const place& first, const place& other) {
  if (first.size != other.size || first.rank == other.rank) return {};
  return fail(errc::bad_request, std::string(first.by->rank) + "=" + std::to_string(first.rank) + " and " +
                                     other.by->rank + "=" + std::to_string(other.rank) +
                                     " contradict each other: unset those that are not meant");
}

}  // namespace

result<ranks_config> find_world(const environment& variables) {
  place at;
  for (const launcher& by : k_launchers) {
    const auto found = read_place(variables, by);
    if (!found) return std::unexpected(found.error());
    if (!*found) continue;
    if (at.by == nullptr) {
      at = **found;
    } else if (auto agrees = check_agreement(at, **found); !agrees) {
      return std::unexpected(agrees.error());
    }
  }
  if (at.size == 1) return ranks_config{};
  if (at.size > k_ranks_max) {
    return fail(errc::bad_request, std::string(at.by->size) + "=" + std::to_string(at.size) + ": at most " +
                                       std::to_string(k_ranks_max) + " ranks run one model");
  }
  const auto where = read_spread(variables, at);
  if (!where) return std::unexpected(where.error());
  const auto port = read(variables, "MASTER_PORT", 1, k_port_max);
  if (!port) return std::unexpected(port.error());
  ranks_config out{static_cast<int>(at.rank), static_cast<int>(at.size),
                   static_cast<std::uint16_t>(port->value_or(k_default_master_port))};
  out.local_rank = where->local_rank;
  if (where->one_machine) return out;
  const auto host = variables("MASTER_ADDR");
  if (!host || host->empty() || host->size() > k_host_bytes_max) {
    return fail(errc::bad_request,
                "the " + std::to_string(at.size) +
                    " ranks are on several machines: MASTER_ADDR must name the one of rank 0");
  }
  out.master_host = *host;
  // torchrun's own store may be at that port.
  const bool is_taken = variables("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
  if (is_taken && out.master_port < k_port_max) ++out.master_port;
  return out;
}

}  // namespace weir::engine::parallel
