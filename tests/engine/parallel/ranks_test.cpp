// What launchers put into the environment, and what is wrong with it.
#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "engine/parallel/ranks.hpp"

namespace {

using namespace weir::engine;
using parallel::find_world;
using variables = std::map<std::string, std::string>;

result<ranks_config> world_of(const variables& set) {
  return find_world([&set](const char* name) -> std::optional<std::string> {
    const auto found = set.find(name);
    return found == set.end() ? std::nullopt : std::optional(found->second);
  });
}

struct good_case {
  const char* name;
  variables set;
  int rank, size, port;
};

struct bad_case {
  variables set;
  errc code;
  const char* names;  // that the detail must hold
  const char* too = "";
};

}  // namespace

TEST_CASE("launchers' variables say the rank", "[ranks]") {
  const good_case cases[] = {
      {"nothing set", {}, 0, 1, 29500},
      {"a world of one", {{"RANK", "0"}, {"WORLD_SIZE", "1"}}, 0, 1, 29500},
      {"torchrun",
       {{"RANK", "2"},
        {"WORLD_SIZE", "4"},
        {"LOCAL_RANK", "2"},
        {"LOCAL_WORLD_SIZE", "4"},
        {"MASTER_PORT", "4711"}},
       2,
       4,
       4711},
      {"mpirun",
       {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}},
       1,
       2,
       29500},
      {"mpiexec", {{"PMI_RANK", "3"}, {"PMI_SIZE", "5"}}, 3, 5, 29500},
      {"srun",
       {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_LOCALID", "1"}, {"SLURM_STEP_ID", "0"}},
       1,
       2,
       29500},
      {"srun, a step smaller than the job",
       {{"SLURM_PROCID", "1"},
        {"SLURM_NTASKS", "8"},
        {"SLURM_STEP_NUM_TASKS", "2"},
        {"SLURM_STEP_ID", "0"},
        {"SLURM_LOCALID", "1"}},
       1,
       2,
       29500},
      {"a batch script is no task",
       {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_LOCALID", "0"}},
       0,
       1,
       29500},
      {"torchrun in a task of Slurm",
       {{"RANK", "1"},
        {"WORLD_SIZE", "2"},
        {"SLURM_PROCID", "0"},
        {"SLURM_STEP_NUM_TASKS", "1"},
        {"SLURM_STEP_ID", "0"}},
       1,
       2,
       29500},
  };
  for (const good_case& one : cases) {
    INFO(one.name);
    const auto found = world_of(one.set);
    INFO((found ? std::string() : found.error().detail));
    REQUIRE(found);
    CHECK(found->rank == one.rank);
    CHECK(found->size == one.size);
    CHECK(found->master_port == one.port);
  }
}

TEST_CASE("variables that cannot be are refused by name", "[ranks]") {
  const bad_case cases[] = {
      {{{"RANK", "0"}}, errc::bad_request, "WORLD_SIZE"},
      {{{"WORLD_SIZE", "2"}}, errc::bad_request, "RANK is not"},
      {{{"OMPI_COMM_WORLD_SIZE", "2"}}, errc::bad_request, "OMPI_COMM_WORLD_RANK is not"},
      {{{"RANK", "2"}, {"WORLD_SIZE", "2"}}, errc::bad_request, "RANK=2", "WORLD_SIZE=2"},
      {{{"RANK", "-1"}, {"WORLD_SIZE", "2"}}, errc::bad_request, "RANK=-1"},
      {{{"RANK", "1x"}, {"WORLD_SIZE", "2"}}, errc::bad_request, "RANK=1x"},
      {{{"RANK", ""}, {"WORLD_SIZE", "2"}}, errc::bad_request, "RANK="},
      {{{"RANK", "99999999999999999999"}, {"WORLD_SIZE", "2"}}, errc::bad_request, "RANK=9999"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "0"}}, errc::bad_request, "WORLD_SIZE=0"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "65"}}, errc::bad_request, "WORLD_SIZE=65", "64"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "0"}}, errc::bad_request, "MASTER_PORT=0"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "65536"}}, errc::bad_request, "MASTER_PORT"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}},
       errc::bad_request,
       "LOCAL_RANK=1",
       "RANK=0"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "3"}},
       errc::bad_request,
       "LOCAL_WORLD_SIZE=3"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}},
       errc::bad_request,
       "RANK=0",
       "OMPI_COMM_WORLD_RANK=1"},
      {{{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}},
       errc::bad_request,
       "several machines",
       "MASTER_ADDR"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "2"}},
       errc::bad_request,
       "several machines"},
      {{{"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "0"}, {"SLURM_STEP_ID", "0"}},
       errc::bad_request,
       "several machines"},
  };
  for (const bad_case& one : cases) {
    const auto found = world_of(one.set);
    INFO(one.names);
    REQUIRE_FALSE(found);
    INFO(found.error().detail);
    CHECK(found.error().code == one.code);
    CHECK(found.error().detail.find(one.names) != std::string::npos);
    CHECK(found.error().detail.find(one.too) != std::string::npos);
  }
}

TEST_CASE("ranks of several machines meet where they are told", "[ranks]") {
  const variables cases[] = {
      {{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}},
      {{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}},
      {{"SLURM_PROCID", "3"},
       {"SLURM_NTASKS", "4"},
       {"SLURM_LOCALID", "1"},
       {"SLURM_STEP_NUM_NODES", "2"},
       {"SLURM_STEP_ID", "0"}},
      {{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}},
  };
  for (variables set : cases) {
    set["MASTER_ADDR"] = "node-a.example";
    set["MASTER_PORT"] = "4711";
    const auto found = world_of(set);
    REQUIRE(found);
    CHECK(found->rank == 3);
    CHECK(found->local_rank == 1);
    CHECK(found->master_host == "node-a.example");
    CHECK(found->master_port == 4711);
  }
  // torchrun's own store holds the port that it names.
  variables torchrun = cases[0];
  torchrun["MASTER_ADDR"] = "node-a.example";
  torchrun["MASTER_PORT"] = "4711";
  torchrun["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  CHECK(world_of(torchrun)->master_port == 4712);
  // Rank 0 of two machines looks like rank 0 of one, but for where it is to meet the others.
  const variables first{{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "10.0.0.7"}};
  CHECK(world_of(first)->master_host == "10.0.0.7");
  variables one_machine = first;
  one_machine["LOCAL_WORLD_SIZE"] = "4";
  CHECK(world_of(one_machine)->master_host.empty());
  one_machine = first;
  one_machine["MASTER_ADDR"] = "127.0.0.1";
  CHECK(world_of(one_machine)->master_host.empty());
}
