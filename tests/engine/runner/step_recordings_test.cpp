#include <catch2/catch.hpp>
#include <memory>
#include <stdexcept>
#include <vector>

#include "engine/runner/placed_batch.hpp"
#include "engine/runner/step_recordings.hpp"

namespace runner = weir::engine::runner;

namespace {

// Notes what is done on it: work counts as one "done" where it is called outside of a recording, and at each
// replay.
class counting_device final : public runner::device {
 public:
  struct counted final : runner::recording {
    explicit counted(counting_device& of) : of_(of) {}
    void replay() override { ++of_.done; }
    counting_device& of_;
  };

  std::byte* allocate(std::size_t bytes) override {
    return memory.emplace_back(std::make_unique<std::byte[]>(bytes)).get();
  }
  void release(std::byte*) noexcept override {}
  void upload(void* to, const void* from, std::size_t bytes) override {
    ++uploads;
    std::copy_n(static_cast<const std::byte*>(from), bytes, static_cast<std::byte*>(to));
  }
  void download(void*, const void*, std::size_t) override {}
  void copy(void*, const void*, std::size_t) override {}
  void wait() override {}
  bool is_host() const noexcept override { return false; }
  weir::kernels::context context(std::byte*, std::size_t) noexcept override { return {}; }
  int thread_count() const noexcept override { return 1; }
  bool can_record() const noexcept override { return true; }
  void begin_recording() override { is_recording = true; }
  std::unique_ptr<runner::recording> end_recording() override {
    is_recording = false;
    ++recorded;
    return std::make_unique<counted>(*this);
  }

  void work() {
    if (!is_recording) ++done;
  }

  std::vector<std::unique_ptr<std::byte[]>> memory;
  int done = 0;
  int recorded = 0;
  int uploads = 0;
  bool is_recording = false;
};

}  // namespace

TEST_CASE("a shape is done directly, then recorded, then replayed", "[runner]") {
  counting_device device;
  runner::step_recordings all(device);
  const runner::step_shape one{1, 1, 16, 256};
  for (int i = 1; i <= 5; ++i) {
    all.run(one, 7, [&] { device.work(); });
    CHECK(device.done == i);
    CHECK(device.recorded == (i > 1 ? 1 : 0));
  }
  CHECK(all.replayed() == 4);
}

TEST_CASE("shapes are told apart, and all are void once memory moves", "[runner]") {
  counting_device device;
  runner::step_recordings all(device);
  const auto run = [&](runner::step_shape shape, std::uint64_t memory) {
    all.run(shape, memory, [&] { device.work(); });
  };
  for (int i = 0; i < 3; ++i) {
    run({1, 1, 16, 256}, 1);
    run({2, 1, 16, 256}, 1);
    run({2, 2, 16, 256}, 1);
    run({2, 2, 32, 256}, 1);
    run({2, 2, 32, 512}, 1);
  }
  CHECK(device.recorded == 5);
  CHECK(device.done == 15);
  run({1, 1, 16, 256}, 2);
  CHECK(all.size() == 1);
  CHECK(all.replayed() == 10);
}

TEST_CASE("there are never more recordings than the limit", "[runner]") {
  counting_device device;
  runner::step_recordings all(device);
  for (std::int32_t rows = 1; rows < 1000; ++rows) all.run({rows, rows, 16, 256}, 1, [&] { device.work(); });
  CHECK(all.size() <= runner::k_recordings_max);
  CHECK(device.done == 999);
}

TEST_CASE("work that fails while it is recorded is recorded anew", "[runner]") {
  counting_device device;
  runner::step_recordings all(device);
  bool fails = false;
  const auto run = [&] {
    all.run({1, 1, 16, 256}, 1, [&] {
      if (fails) throw std::runtime_error("no memory");
      device.work();
    });
  };
  run();
  fails = true;
  CHECK_THROWS(run());
  CHECK_FALSE(device.is_recording);
  fails = false;
  run();
  run();
  CHECK(device.done == 3);
}

TEST_CASE("a batch goes to a device in one upload, its table padded to few widths", "[runner]") {
  counting_device device;
  runner::placed_batch placed(device);
  runner::batch work;
  work.reset(3);
  const std::int32_t next[] = {5};
  const std::int32_t pages[] = {11, 12, 13};
  work.append(next, 130, 2, pages);
  work.append(next, 40, 1, std::span(pages).first(1));
  work.logit_rows = {0, 1};
  placed.place(work);
  CHECK(device.uploads == 1);
  CHECK(placed.is_decode());
  const auto& view = placed.view();
  CHECK(view.table_stride == 16);
  CHECK(view.context_max == 256);
  CHECK(view.row_count == 2);
  CHECK(view.sequences[0].position == 130);
  CHECK(view.sequences[1].slot == 1);
  CHECK(view.row_sequence[1] == 1);
  CHECK(std::vector(view.block_table, view.block_table + 3) == std::vector<std::int32_t>{11, 12, 13});
  CHECK(view.block_table[16] == 11);
  CHECK(placed.tokens()[1] == 5);
  CHECK(placed.logit_rows()[1] == 1);
  const auto shape = placed.shape();
  work.sequences[0].position = 131;
  placed.place(work);
  CHECK(placed.shape() == shape);
}
