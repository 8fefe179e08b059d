#include "prefix_index/index_store.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "prefix_index/index_format.hpp"
#include "tests/prefix_index/chains.hpp"
#include "tests/support/temp_dir.hpp"

namespace weir::prefix_index {
namespace {

constexpr replica_id k_event_replica = 7;
constexpr std::uint64_t k_capacity_tokens = 64 * 3000;

// One gateway's life: an index, a simulated replica "a" and an event replica "b", the store.
struct life {
  explicit life(const std::filesystem::path& folder, replica_id simulated = 1,
                std::uint64_t capacity = k_capacity_tokens)
      : id(simulated),
        model(index, simulated,
              {.capacity_tokens = capacity,
               .checkpoint_tokens = 1000,
               .keeps = retention::prompt_end_second_sighting}) {
    index.set_evidence(k_event_replica, evidence::events, evidence::events);
    store =
        std::make_unique<index_store>(index, folder,
                                      std::vector<stored_replica>{{.name = "a", .id = id, .model = &model},
                                                                  {.name = "b", .id = k_event_replica}});
  }

  void dispatch(const std::vector<block_key>& chain) {
    model.dispatched(chain);
    store->changed(chain);
  }
  void event(const std::vector<block_key>& chain) {
    index.pages_added(k_event_replica, chain, 0, kv_medium::host, {});
    index.checkpoint_added(k_event_replica, boundary_of(chain, static_cast<std::uint32_t>(chain.size() / 2)),
                           kv_medium::device);
    store->changed(chain);
  }
  holding held(const std::vector<block_key>& chain, replica_id replica) const {
    holding out;
    index.find(chain, std::span(&replica, 1), std::span(&out, 1));
    return out;
  }

  replica_id id;
  residency_index index;
  replica_model model;
  std::unique_ptr<index_store> store;
};

TEST_CASE("a database that another index has open is left alone") {
  const testing::temp_dir folder;
  chain_maker chains(3);
  const auto chain = chains.next(60);
  {
    life first(folder.path());
    first.dispatch(chain);
    life second(folder.path());
    CHECK(second.store->counters().rebuilt == 0);
    CHECK(second.store->counters().write_errors > 0);
  }
  life third(folder.path());
  CHECK(third.store->counters().rebuilt == 0);
  CHECK(third.held(chain, 1).pages == chain.size());
}

TEST_CASE("a restart with a handful of keys finds room for them and for more") {
  for (const std::size_t units : {1, 2, 255, 300, 600, 1500}) {
    INFO(units << " units");
    const testing::temp_dir folder;
    chain_maker chains(units);
    std::vector<block_key> chain;
    while (chain.size() < units) {
      const auto more = chains.next(60);
      chain.insert(chain.end(), more.begin(), more.end());
    }
    chain.resize(units);
    { life(folder.path()).dispatch(chain); }
    life second(folder.path());
    CHECK(second.store->counters().keys_loaded > 0);
    CHECK(second.held(chain, 1).pages == units);
    for (int i = 0; i < 100; ++i) second.dispatch(chains.next(60));
  }
}

TEST_CASE("a restart knows what was held, as hints, and the model goes on as if nothing had happened") {
  const testing::temp_dir folder;
  chain_maker chains(1);
  std::vector<std::vector<block_key>> prompts;
  life never_stopped(folder.path() / "other");
  {
    life first(folder.path());
    for (int i = 0; i < 300; ++i) {
      prompts.push_back(chains.next(60));
      if (prompts.back().empty()) continue;
      first.dispatch(prompts.back());
      never_stopped.dispatch(prompts.back());
      if (i % 3 == 0) first.event(prompts.back());
      if (i % 3 == 0) never_stopped.event(prompts.back());
    }
  }
  life second(folder.path(), 4);  // another id for the same name
  CHECK(second.store->counters().rebuilt == 0);
  CHECK(second.store->counters().keys_loaded > 1000);
  CHECK(second.model.used_tokens() == never_stopped.model.used_tokens());
  for (int i = 0; i < 300; ++i) {
    const auto& chain = i < 150 ? prompts[static_cast<std::size_t>(i) * 2] : chains.next(60);
    const auto now = second.held(chain, 4);
    const auto then = never_stopped.held(chain, 1);
    REQUIRE(now.pages == then.pages);
    REQUIRE(now.checkpoint == then.checkpoint);
    if (i == 0 && now.pages > 0) CHECK(now.pages_from == confidence::restored);
    const auto event_now = second.held(chain, k_event_replica);
    const auto event_then = never_stopped.held(chain, k_event_replica);
    REQUIRE(event_now.pages == event_then.pages);
    REQUIRE(event_now.checkpoint == event_then.checkpoint);
    if (event_now.pages > 0) REQUIRE(event_now.pages_from == confidence::restored);
    second.dispatch(chain);
    never_stopped.dispatch(chain);
  }
}

TEST_CASE("a hint becomes confirmed by an event, and its removal ends it") {
  const testing::temp_dir folder;
  chain_maker chains(2);
  const auto chain = chains.fresh_chain(10);
  { life(folder.path()).event(chain); }
  life second(folder.path());
  REQUIRE(second.held(chain, k_event_replica).pages_from == confidence::restored);
  std::vector<record_id> ids(chain.size());
  second.index.pages_added(k_event_replica, chain, 0, kv_medium::device, ids);
  CHECK(second.held(chain, k_event_replica).pages_from == confidence::confirmed);
  second.index.pages_removed(k_event_replica, ids, kv_medium::device);
  CHECK(second.held(chain, k_event_replica).pages == 0);
}

TEST_CASE("what events bring and take is kept without anybody's report") {
  const testing::temp_dir folder;
  chain_maker chains(8);
  const auto chain = chains.fresh_chain(40);
  const auto other = chains.fresh_chain(6);
  {
    life first(folder.path());
    std::vector<record_id> ids(chain.size());
    first.index.pages_added(k_event_replica, chain, 0, kv_medium::device, ids);
    first.index.pages_added(k_event_replica, other, 0, kv_medium::device, {});
    first.index.checkpoint_added(k_event_replica, boundary_of(chain, 33), kv_medium::device);
    first.index.checkpoint_added(k_event_replica, boundary_of(chain, 20), kv_medium::device);
    first.store->flush();
    first.index.pages_removed(k_event_replica, std::span(ids).subspan(30), kv_medium::device);
    first.index.checkpoint_removed(k_event_replica, chain[20]);
  }
  {
    life second(folder.path());
    CHECK(second.held(chain, k_event_replica).pages == 30);
    CHECK(second.held(chain, k_event_replica).pages_from == confidence::restored);
    CHECK(second.held(chain, k_event_replica).checkpoint == 0);
    CHECK(second.held(other, k_event_replica).pages == 6);
    second.index.checkpoint_added(k_event_replica, boundary_of(chain, 11), kv_medium::device);
  }
  CHECK(life(folder.path()).held(chain, k_event_replica).checkpoint == 12);
}

TEST_CASE("a replica that speaks before the load keeps what it said and gets no hints") {
  const testing::temp_dir folder;
  chain_maker chains(9);
  const auto chain = chains.fresh_chain(10);
  const auto later = chains.fresh_chain(5);
  {
    life first(folder.path());
    first.index.clear(k_event_replica);
    first.event(chain);
  }
  residency_index index;
  index.set_evidence(k_event_replica, evidence::events, evidence::events);
  index.pages_added(k_event_replica, later, 0, kv_medium::device, {});
  const auto epoch = index.epoch(k_event_replica);
  const index_store store(index, folder.path(), {{.name = "b", .id = k_event_replica}});
  CHECK(index.epoch(k_event_replica) == epoch);
  holding out;
  index.find(later, std::span(&k_event_replica, 1), std::span(&out, 1));
  CHECK(out.pages == 5);
  index.find(chain, std::span(&k_event_replica, 1), std::span(&out, 1));
  CHECK(out.pages == 0);
}

TEST_CASE("a replica that comes later is kept; whoever had its id or its name before is not it") {
  const testing::temp_dir folder;
  chain_maker chains(10);
  const auto before = chains.fresh_chain(10);
  const auto after = chains.fresh_chain(20);
  const auto held_by = [](const std::string& name, const std::vector<block_key>& chain,
                          const std::filesystem::path& at) {
    residency_index index;
    const replica_id id = 3;
    index.set_evidence(id, evidence::events, evidence::events);
    const index_store store(index, at, {{.name = name, .id = id}});
    holding out;
    index.find(chain, std::span(&id, 1), std::span(&out, 1));
    return out.pages;
  };
  {
    life first(folder.path());
    first.event(before);
    first.store->flush();
    first.index.clear(k_event_replica);  // "b" leaves and "c" gets its id
    first.store->add({.name = "c", .id = k_event_replica});
    first.event(after);
    first.index.set_evidence(9, evidence::events, evidence::events);
    first.store->add({.name = "d", .id = 9});
    first.index.pages_added(9, before, 0, kv_medium::device, {});
  }
  CHECK(held_by("c", after, folder.path()) == 20);
  CHECK(held_by("c", before, folder.path()) == 0);
  CHECK(held_by("b", after, folder.path()) == 0);
  CHECK(held_by("d", before, folder.path()) == 10);
  {
    life second(folder.path());
    second.index.set_evidence(9, evidence::events, evidence::events);
    second.store->add({.name = "d", .id = 9});  // known to an earlier run
    second.index.pages_added(9, after, 0, kv_medium::device, {});
  }
  CHECK(held_by("d", after, folder.path()) == 20);
  CHECK(held_by("d", before, folder.path()) == 0);
}

TEST_CASE("what was cleared stays cleared after a restart") {
  const testing::temp_dir folder;
  chain_maker chains(3);
  const auto chain = chains.fresh_chain(10);
  const auto later = chains.fresh_chain(5);
  {
    life first(folder.path());
    first.dispatch(chain);
    first.event(chain);
    first.store->flush();
    first.index.clear(1);
    first.index.clear(k_event_replica);
    first.event(later);
  }
  for (int restart = 0; restart < 2; ++restart) {
    life next(folder.path());
    CHECK(next.held(chain, 1).pages == 0);
    CHECK(next.held(chain, k_event_replica).pages == 0);
    CHECK(next.held(later, k_event_replica).pages == 5);
  }
}

TEST_CASE("a killed writer leaves a database that opens with what was flushed") {
  const testing::temp_dir folder;
  const auto first_chain = chain_maker(4).fresh_chain(200);
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const auto child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    life writer(folder.path(), 1, std::uint64_t{1} << 40);
    writer.dispatch(first_chain);
    writer.store->flush();
    chain_maker chains(5);
    for (int i = 0;; ++i) {
      writer.dispatch(chains.fresh_chain(200));
      if (i == 200 && ::write(ready[1], "x", 1) != 1) ::_exit(1);
    }
  }
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
  life second(folder.path(), 1, std::uint64_t{1} << 40);
  CHECK(second.store->counters().rebuilt == 0);
  CHECK(second.held(first_chain, 1).pages == 200);
  CHECK(second.held(first_chain, 1).checkpoint == 200);
}

TEST_CASE("flipped bytes anywhere are never fatal, and a damaged database starts anew") {
  std::uint64_t rebuilt = 0;
  for (int round = 0; round < 12; ++round) {
    const testing::temp_dir folder;
    chain_maker chains(static_cast<std::uint64_t>(round));
    {
      life first(folder.path());
      for (int i = 0; i < 20; ++i) first.dispatch(chains.fresh_chain(100));
    }
    std::vector<std::filesystem::path> files;
    for (const auto& file : std::filesystem::recursive_directory_iterator(folder.path())) {
      if (file.is_regular_file() && file.file_size() > 0 && file.path().filename() != "LOG") {
        files.push_back(file.path());
      }
    }
    std::sort(files.begin(), files.end());
    REQUIRE_FALSE(files.empty());
    const auto& victim = files[static_cast<std::size_t>(round) % files.size()];
    std::fstream out(victim, std::ios::in | std::ios::out | std::ios::binary);
    const auto size = std::filesystem::file_size(victim);
    for (std::uint64_t at = 0; at < size; at += 1 + size / 16) {
      out.seekp(static_cast<std::streamoff>(at));
      out.put(static_cast<char>(chains.below(256)));
    }
    out.close();
    INFO(victim.filename());
    const auto chain = chains.fresh_chain(10);
    {
      life second(folder.path());
      rebuilt += second.store->counters().rebuilt;
      second.dispatch(chain);
      second.store->flush();
      CHECK(second.store->counters().write_errors == 0);
    }
    CHECK(life(folder.path()).held(chain, 1).pages == 10);
  }
  CHECK(rebuilt > 0);
}

TEST_CASE("a folder that cannot be used keeps nothing and stops nobody") {
  const testing::temp_dir folder;
  std::ofstream(folder.path() / "file") << "in the way";
  life only(folder.path() / "file");
  const auto chain = chain_maker(6).fresh_chain(10);
  only.dispatch(chain);
  only.store->flush();
  CHECK(only.store->counters().write_errors > 0);
  CHECK(only.held(chain, 1).pages == 10);
}

TEST_CASE("a full queue drops and counts") {
  const testing::temp_dir folder;
  life only(folder.path());
  const std::vector<block_key> many(k_store_queue_keys_max + 5, block_key{.low = 1, .high = 1});
  only.store->changed(many);
  CHECK(only.store->counters().keys_dropped >= 5);
}

TEST_CASE("record keys and values survive a round trip; every other length or number is refused") {
  chain_maker chains(7);
  for (const auto& key : chains.fresh_chain(50)) {
    const auto bytes = encode_record_key(key);
    CHECK(decode_record_key({bytes.data(), bytes.size()}) == key);
  }
  const stored_record record{
      .depth = 9, .words = {{3, stored_kind::model_pages, 1, 77}, {0, stored_kind::far_summary, 0, 5}}};
  std::string bytes;
  encode_record(record, bytes);
  stored_record back;
  REQUIRE(decode_record(bytes, back));
  CHECK(back.depth == 9);
  CHECK(back.words[0].slot == 3);
  CHECK(back.words[0].medium == 1);
  CHECK(back.words[0].number == 77);
  CHECK(back.words[1].kind == stored_kind::far_summary);
  CHECK_FALSE(decode_record(bytes.substr(1), back));
  CHECK_FALSE(decode_record("", back));
  bytes[6] = 0;  // no kind
  CHECK_FALSE(decode_record(bytes, back));
  CHECK_FALSE(decode_replica_state(std::string(26, '\0')));
  CHECK(decode_replica_state(encode_replica_state({.slot = 1, .epoch = 1})));
}

}  // namespace
}  // namespace weir::prefix_index
