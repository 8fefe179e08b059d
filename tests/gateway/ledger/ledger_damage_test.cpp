#include <fmt/format.h>
#include <rocksdb/db.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <random>

#include "tests/gateway/ledger/support.hpp"

namespace weir::gateway::ledger {

namespace {

namespace fs = std::filesystem;

constexpr int k_flips_each = 40;  // per kind of file

std::string read_file(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_file(const fs::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
}

// All that a ledger says, in words that can be compared.
std::string describe(const contents& c) {
  std::map<std::string, std::string> lines;
  const auto add = [&](const any_record& record) {
    auto stored = encode(record);
    lines[stored.key] = *stored.value;
  };
  add(c.sums.state());
  for (const auto& [name, account] : c.sums.accounts()) {
    add(stored_account{name, account.sums});
    for (const auto& day : account.days.all())
      add(stored_window{name, window_unit::day, day.label, day.spent});
    for (const auto& m : account.months.all()) add(stored_window{name, window_unit::month, m.label, m.spent});
  }
  for (const auto& [id, reservation] : c.sums.open()) add(stored_reservation{id, *reservation});
  for (const auto& [id, key] : c.keys) add(key);
  std::string out;
  for (const auto& [key, value] : lines) out += key + value;
  return out;
}

// A ledger that has something in a table file, in the log and in the manifest.
struct sample {
  testing::temp_dir folder;
  hand_clock clock;
  std::string content;

  sample() {
    for (int run = 0; run < 2; ++run) {  // opening writes the log of the run before into a table
      const auto book = open_good(settings_for(original(), clock));
      for (int i = 0; i < 20; ++i) {
        const auto id = reserve_durably(*book, fmt::format("key_{}", i % 3), 100 + i);
        if (i % 4 != 0) settle_durably(*book, id, 90 + i);
        outcome told;
        REQUIRE(book->put(auth::key_record{.id = fmt::format("key_{}", i)}, told.callback()));
        REQUIRE(told.wait());
      }
    }
    fs::copy(original(), damaged(), fs::copy_options::recursive);
    content = describe(read_folder(damaged()));
  }
  fs::path original() const { return folder.path() / "original"; }
  fs::path damaged() const { return folder.path() / "damaged"; }

  fs::path fresh_copy() const {
    fs::remove_all(damaged());
    fs::copy(original(), damaged(), fs::copy_options::recursive);
    return damaged();
  }
  // Files of db/ of which the name begins or ends so.
  std::vector<fs::path> files(const std::string& part) const {
    std::vector<fs::path> out;
    for (const auto& entry : fs::directory_iterator(original() / "db")) {
      const auto name = entry.path().filename().string();
      if (name.starts_with(part) || name.ends_with(part)) out.push_back(entry.path());
    }
    std::sort(out.begin(), out.end());
    return out;
  }
  // What opening the damaged copy says: nothing, it opened and holds exactly what it held.
  std::string verdict() const {
    contents out;
    const auto opened = store::open({.folder = damaged(), .write_buffer_bytes = std::size_t{1} << 20}, out);
    if (!opened) {
      CHECK(opened.error().reason == fault::failed);
      CHECK(opened.error().text.find(damaged().string()) != std::string::npos);
      return opened.error().text;
    }
    if (describe(out) != content) FAIL("opened with other content");
    return "";
  }
};

// Every file but RocksDB's own log and what locks: name and bytes.
std::map<std::string, std::string> snapshot(const fs::path& folder) {
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const auto name = entry.path().filename().string();
    if (!entry.is_regular_file() || name.starts_with("LOG") || name == "LOCK") continue;
    out[entry.path().string()] = read_file(entry.path());
  }
  return out;
}

void alter(const fs::path& folder, const std::function<void(rocksdb::DB&)>& change) {
  rocksdb::DB* raw = nullptr;
  REQUIRE(rocksdb::DB::Open({}, (folder / "db").string(), &raw).ok());
  const std::unique_ptr<rocksdb::DB> database(raw);
  change(*database);
}

}  // namespace

TEST_CASE("a ledger's folder that others may enter is closed; a folder of something else is left alone") {
  testing::temp_dir folder;
  hand_clock clock;
  const auto mode = [](const fs::path& of) { return fs::status(of).permissions() & fs::perms::mask; };
  const auto open = fs::perms::owner_all | fs::perms::group_read | fs::perms::others_exec;
  const auto ledger_dir = folder.path() / "ledger";
  fs::create_directory(ledger_dir);
  for (int run = 0; run < 2; ++run) {  // empty, then a ledger
    fs::permissions(ledger_dir, open);
    open_good(settings_for(ledger_dir, clock));
    CHECK(mode(ledger_dir) == fs::perms::owner_all);
  }
  const auto other = folder.path() / "other";
  fs::create_directory(other);
  write_file(other / "letters", "mine");
  fs::permissions(other, open);
  const auto refused = ledger::open(settings_for(other, clock));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().find("a folder of its own") != std::string::npos);
  CHECK(mode(other) == open);
  CHECK(std::distance(fs::directory_iterator(other), {}) == 1);
}

TEST_CASE("a flipped byte in log, table or manifest is refused, or changes nothing") {
  const std::uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::minstd_rand random(seed);
  const sample from;
  for (const std::string kind : {".log", ".sst", "MANIFEST"}) {
    const auto files = from.files(kind);
    REQUIRE_FALSE(files.empty());
    int refused = 0;
    for (int i = 0; i < k_flips_each; ++i) {
      const auto& file = files[random() % files.size()];
      auto bytes = read_file(file);
      REQUIRE_FALSE(bytes.empty());
      const auto at = random() % bytes.size();
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
      INFO(file.filename().string() << " byte " << at);
      from.fresh_copy();
      write_file(from.damaged() / "db" / file.filename(), bytes);
      const auto before = snapshot(from.damaged());
      if (from.verdict().empty()) continue;
      ++refused;
      CHECK(snapshot(from.damaged()) == before);
    }
    INFO(kind << ": refused " << refused << " of " << k_flips_each);
    CHECK(refused > k_flips_each / 2);
  }
}

TEST_CASE("a log that lost its acknowledged end is refused, however much it lost") {
  const sample from;
  const auto log = from.files(".log").back();
  const auto bytes = read_file(log);
  REQUIRE(bytes.size() > 3000);
  for (const std::size_t lost : {1, 7, 100, 2900}) {
    INFO("lost " << lost);
    from.fresh_copy();
    write_file(from.damaged() / "db" / log.filename(), bytes.substr(0, bytes.size() - lost));
    CHECK(from.verdict().find("batches, which were acknowledged") != std::string::npos);
    fs::remove(from.damaged() / "acknowledged");  // as the sentence says, to go on without them
    CHECK(read_folder(from.damaged()).sums.state().commit > 0);
  }
}

TEST_CASE("a missing part is refused with what to do") {
  const sample from;
  for (const std::string kind : {".log", ".sst", "MANIFEST", "CURRENT"}) {
    INFO(kind);
    const auto name = from.files(kind).back().filename();
    fs::remove(from.fresh_copy() / "db" / name);
    CHECK_FALSE(from.verdict().empty());
  }
  fs::remove_all(from.fresh_copy() / "db");
  CHECK(from.verdict().find("restore the folder from a backup") != std::string::npos);
  from.fresh_copy();
  write_file(from.damaged() / "acknowledged", std::string(24, 'x'));
  CHECK(from.verdict().find("acknowledged") != std::string::npos);
}

TEST_CASE("records that do not belong are refused") {
  const sample from;
  struct row {
    const char* name;
    std::function<void(rocksdb::DB&)> change;
    const char* says;
  };
  const auto state_at = encode(state_record{}).key;
  const row rows[] = {
      {"a format of the future",
       [](rocksdb::DB& db) {
         REQUIRE(db.Put({}, rocksdb::Slice(k_format_key.data(), k_format_key.size()), "weir ledger 2").ok());
       },
       "weir ledger 2"},
      {"no format",
       [](rocksdb::DB& db) {
         REQUIRE(db.Delete({}, rocksdb::Slice(k_format_key.data(), k_format_key.size())).ok());
       },
       "the format \"none\""},
      {"a hole: a reservation vanished",
       [](rocksdb::DB& db) { REQUIRE(db.Delete({}, erase_reservation(21).key).ok()); }, "reservations"},
      {"no state", [&](rocksdb::DB& db) { REQUIRE(db.Delete({}, state_at).ok()); }, "state"},
      {"a stranger's record", [](rocksdb::DB& db) { REQUIRE(db.Put({}, "hello", "world").ok()); },
       "cannot be read"},
      {"a window that was edited",
       [](rocksdb::DB& db) {
         const auto edited = encode(stored_window{"key_1", window_unit::day, 20'787, 1});
         REQUIRE(db.Put({}, edited.key, *edited.value).ok());
       },
       "key_1"},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    alter(from.fresh_copy(), row.change);
    CHECK(from.verdict().find(row.says) != std::string::npos);
  }
}

TEST_CASE("a ledger in use is refused") {
  const testing::temp_dir folder;
  hand_clock clock;
  const auto book = open_good(settings_for(folder.path(), clock));
  const auto second = ledger::open(settings_for(folder.path(), clock));
  REQUIRE_FALSE(second);
  CHECK(second.error().find(folder.path().string()) != std::string::npos);
  CHECK(second.error().find("in use") != std::string::npos);
}

TEST_CASE("a folder that cannot be written is refused with what to do") {
  hand_clock clock;
  const auto opened = ledger::open(settings_for("/proc/no-such-folder/ledger", clock));
  REQUIRE_FALSE(opened);
  CHECK(opened.error().find("mode 0700") != std::string::npos);
}

}  // namespace weir::gateway::ledger
