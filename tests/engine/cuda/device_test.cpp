// The CUDA device and what goes onto it, against the emulated runtime.
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <memory>
#include <new>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "engine/cuda/cuda_backend.hpp"
#include "engine/cuda/cuda_device.hpp"
#include "engine/runner/backend.hpp"
#include "engine/runner/place_model.hpp"
#include "tests/cuda_emulator/cuda_runtime_api.h"

namespace {

using namespace weir::engine;

constexpr std::size_t k_memory_bytes = std::size_t{1} << 32;

// Gives a test its own amount of device memory.
struct device_memory {
  explicit device_memory(std::size_t bytes) { cuda_emulator::set_memory(bytes); }
  ~device_memory() { cuda_emulator::set_memory(k_memory_bytes); }
};

std::vector<std::uint32_t> counted(std::size_t count) {
  std::vector<std::uint32_t> out(count);
  std::iota(out.begin(), out.end(), 1U);
  return out;
}

}  // namespace

TEST_CASE("what is uploaded comes back, in pieces of the staging memory and not", "[cuda]") {
  cuda::cuda_device device(0);
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{4}, cuda::k_staging_bytes, cuda::k_staging_bytes * 3 + 4}) {
    const auto values = counted(bytes / sizeof(std::uint32_t));
    runner::scratch<std::uint32_t> first(device), second(device);
    const auto count = static_cast<std::int64_t>(values.size());
    device.upload(first.need(count), values.data(), bytes);
    device.copy(second.need(count), first.data(), bytes);
    std::vector<std::uint32_t> back(values.size());
    device.download(back.data(), second.data(), bytes);
    CHECK(back == values);
  }
}

TEST_CASE("a full device says so, and goes on", "[cuda]") {
  const device_memory small(1 << 20);
  cuda::cuda_device device(0);
  CHECK_THROWS_AS(device.allocate(2 << 20), std::bad_alloc);
  std::byte* const some = device.allocate(1 << 19);
  CHECK_THROWS_AS(device.allocate(1 << 20), std::bad_alloc);
  device.release(some);
  device.release(device.allocate(1 << 20));
  CHECK_NOTHROW(device.wait());
}

TEST_CASE("a fault of the device is told with the call that saw it", "[cuda]") {
  cuda::cuda_device device(0);
  cuda_emulator::fail_next(cudaErrorIllegalAddress);
  CHECK_THROWS_WITH(device.wait(), Catch::Contains("illegal memory access"));
  CHECK_NOTHROW(device.wait());
  const auto missing = cuda::cuda_device::open(3);
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == errc::io);
}

TEST_CASE("recorded work is done when it is replayed, on what memory holds then", "[cuda]") {
  cuda::cuda_device device(0);
  runner::scratch<std::uint32_t> from(device), to(device);
  const auto put = [&](runner::scratch<std::uint32_t>& where, std::uint32_t value) {
    device.upload(where.need(1), &value, sizeof value);
  };
  const auto get = [&] {
    std::uint32_t out = 0;
    device.download(&out, to.data(), sizeof out);
    return out;
  };
  put(from, 1);
  put(to, 0);
  device.begin_recording();
  device.copy(to.data(), from.data(), sizeof(std::uint32_t));
  CHECK_THROWS(device.upload(from.data(), from.data(), sizeof(std::uint32_t)));
  const auto recorded = device.end_recording();
  CHECK(get() == 0);
  recorded->replay();
  CHECK(get() == 1);
  put(from, 7);
  recorded->replay();
  CHECK(get() == 7);
}

TEST_CASE("whoever waits for the device may look around meanwhile", "[cuda]") {
  cuda::cuda_device device(0);
  int looks = 0;
  std::chrono::steady_clock::duration waited{};
  device.watch([&](auto since) {
    CHECK(since > waited);
    waited = since;
    if (++looks % 3 == 0) throw std::runtime_error("enough");
  });
  CHECK_NOTHROW(device.wait());
  CHECK(looks == 0);
  cuda_emulator::set_stuck(true);
  CHECK_THROWS_WITH(device.wait(), "enough");
  waited = {};
  const std::uint32_t value = 1;
  runner::scratch<std::uint32_t> to(device);
  CHECK_THROWS_WITH(device.upload(to.need(1), &value, sizeof value), "enough");
  cuda_emulator::set_stuck(false);
  CHECK_NOTHROW(device.wait());
}

TEST_CASE("a model takes the memory that was planned, to the byte, and no less will do", "[cuda]") {
  const auto dir = std::filesystem::path(WEIR_SOURCE_DIR) / "configs/models/weir-tiny";
  const auto model = runner::load_model(dir);
  REQUIRE(model);
  const std::int64_t bytes = runner::placed_bytes((*model)->weights);
  CHECK(bytes >= (*model)->weights.weight_bytes);
  for (const std::int64_t missing : {0, 1}) {
    const device_memory exact(static_cast<std::size_t>(bytes - missing * 256));
    const auto where = std::make_shared<cuda::cuda_device>(0);
    if (missing > 0) {
      CHECK_THROWS_AS(runner::place_model(**model, where), std::bad_alloc);
      continue;
    }
    std::int64_t told = 0;
    const auto placed = runner::place_model(**model, where, [&](std::int64_t done, std::int64_t all) {
      CHECK(all == bytes);
      told = done;
    });
    CHECK(told == bytes);
    const auto& here = (*model)->weights.layers[0];
    const auto& there = placed->weights.layers[0];
    CHECK(there.input_norm.data() != here.input_norm.data());
    std::vector<float> back(here.input_norm.size());
    where->download(back.data(), there.input_norm.data(), back.size() * sizeof(float));
    CHECK(std::equal(back.begin(), back.end(), here.input_norm.begin()));
    const bool tied = (*model)->weights.head.data == (*model)->weights.embedding.data;
    CHECK((placed->weights.head.data == placed->weights.embedding.data) == tied);
  }
}

TEST_CASE("the backend tells what the machine has", "[cuda]") {
  cuda::link_backend();
  const auto* const backend = runner::cuda_backend();
  REQUIRE(backend != nullptr);
  CHECK(backend->count() == 1);
  const auto facts = backend->facts(0);
  REQUIRE(facts);
  CHECK(facts->name == "emulated device");
  CHECK(facts->memory_bytes == static_cast<std::int64_t>(k_memory_bytes));
  const auto missing = backend->facts(1);
  REQUIRE_FALSE(missing);
  CHECK(missing.error().detail == "there is no CUDA device 1: this machine has 1");
  CHECK(*runner::resolve(backend_kind::automatic) == backend_kind::cuda);
  CHECK(*runner::resolve(backend_kind::cpu) == backend_kind::cpu);
}
