// A ledger at work until it is killed: crash_child FOLDER SEED WRITE_BUFFER_BYTES FORGETS GENERATION. What it
// does and what it was told goes to standard output as crash_event.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "gateway/ledger/ledger.hpp"
#include "tests/gateway/ledger/crash_events.hpp"
#include "tests/gateway/ledger/faulty_files.hpp"

namespace {

using namespace weir::gateway;          // NOLINT: a program is one file
using namespace weir::gateway::ledger;  // NOLINT

void say(const crash_event& event) {
  if (::write(STDOUT_FILENO, &event, sizeof event) != sizeof event) std::_Exit(3);
}

// Tells when durable, and says so if it is not.
done telling(crash_event event) {
  return [event](std::expected<void, fault> told) {
    say(told ? event : crash_event{.kind = crash_event_kind::refused});
  };
}

class workload {
 public:
  workload(ledger::ledger& book, std::uint32_t seed, std::int64_t generation)
      : book_(book), random_(seed), generation_(generation) {}

  [[noreturn]] void run() {
    for (;;) {
      const auto what = random_() % 16;
      if (what < 8 && in_flight_ < 200)
        reserve();
      else if (what < 15)
        settle();
      else
        put();
      if (random_() % 64 == 0) ::usleep(static_cast<useconds_t>(random_() % 3000));
    }
  }

 private:
  struct reservation {
    std::uint32_t number;
    reservation_id id;
    std::shared_ptr<std::atomic<bool>> durable;
  };

  void reserve() {
    const auto number = next_++;
    const auto account = static_cast<std::uint32_t>(random_() % k_crash_accounts);
    const std::int64_t amount = random_() % 1000;
    say({.kind = crash_event_kind::reserve, .number = number, .amount = amount, .account = account});
    auto durable = std::make_shared<std::atomic<bool>>(false);
    ++in_flight_;
    const auto id =
        book_.reserve(fmt::format("key_{}", account), {}, amount, fmt::format("{}", number),
                      [this, durable, tell = telling({.kind = crash_event_kind::reserved, .number = number})](
                          auto told) mutable {
                        tell(told);
                        *durable = true;
                        --in_flight_;
                      });
    if (!id) say({.kind = crash_event_kind::refused});
    if (id) open_.push_back({number, *id, std::move(durable)});
  }

  void settle() {
    if (open_.empty()) return;
    const auto at = random_() % open_.size();
    if (!*open_[at].durable && random_() % 8 != 0) return;  // now and then a request aborts that early
    const auto one = std::exchange(open_[at], open_.back());
    open_.pop_back();
    const std::int64_t actual = random_() % 1200;
    say({.kind = crash_event_kind::settle, .number = one.number, .amount = actual});
    book_.settle(one.id, actual, telling({.kind = crash_event_kind::settled, .number = one.number}));
    if (random_() % 16 == 0) book_.settle(one.id, actual);
  }

  // Makes, rotates or revokes a key; each put is a later generation, which is its time of creation.
  void put() {
    const auto number = static_cast<std::uint32_t>(random_() % k_crash_keys);
    revoked_ = revoked_ || (number == 0 && random_() % 64 == 0);
    const bool revokes = number == 0 && revoked_;
    auth::key_record key{.id = fmt::format("key_{}", number), .created_s = ++generation_, .revoked = revokes};
    key.digest.fill(static_cast<unsigned char>(generation_));
    if (random_() % 2 == 0) key.previous_digest = key.digest;
    crash_event event{.kind = crash_event_kind::put,
                      .number = number,
                      .amount = generation_,
                      .revoked = static_cast<std::uint32_t>(revokes)};
    say(event);
    event.kind = crash_event_kind::put_done;
    // A key that an earlier run has revoked refuses to live again: that is no loss.
    const bool may_be_refused = number == 0 && !revokes;
    auto tell = may_be_refused ? done([event](auto told) {
      if (told) say(event);
    })
                               : telling(event);
    if (!book_.put(std::move(key), std::move(tell))) say({.kind = crash_event_kind::refused});
  }

  ledger::ledger& book_;
  std::minstd_rand random_;
  std::int64_t generation_;
  bool revoked_ = false;
  std::uint32_t next_ = 0;
  std::atomic<int> in_flight_ = 0;
  std::vector<reservation> open_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const auto seed = static_cast<std::uint32_t>(std::strtoul(argv[2], nullptr, 10));
  disk_faults disk;
  disk.forgets_seed = std::string_view(argv[4]) == "1" ? seed | 1 : 0;
  const auto env = make_faulty_env(disk);
  settings with;
  with.folder = argv[1];
  with.env = env.get();
  with.write_buffer_bytes = std::strtoul(argv[3], nullptr, 10);
  auto opened = ledger::ledger::open(std::move(with));
  if (!opened) {
    fmt::print(stderr, "{}\n", opened.error());
    return 1;
  }
  say({.kind = crash_event_kind::opened});
  workload(**opened, seed, std::strtoll(argv[5], nullptr, 10)).run();
}
