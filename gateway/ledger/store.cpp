#include "gateway/ledger/store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/listener.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "gateway/ledger/byte_codec.hpp"
#include "gateway/ledger/load.hpp"

namespace weir::gateway::ledger {

namespace {

namespace fs = std::filesystem;

// What opening writes at once: the memory tables that the log fills again, twice over.
constexpr std::size_t k_probe_bytes = std::size_t{8} << 20;
constexpr std::size_t k_protection_bytes =
    8;  // checksum of each key and value from here into the memory table

std::unexpected<store_error> refuse(std::string text, fault reason = fault::failed) {
  return std::unexpected(store_error{reason, std::move(text)});
}

std::unexpected<store_error> refuse_io(const fs::path& path, int error) {
  const bool full = error == ENOSPC || error == EDQUOT;
  return refuse(fmt::format("cannot write {}: {}: {}", path.string(), std::strerror(error),
                            full ? "free some space" : "give the gateway's user this folder, mode 0700"),
                full ? fault::full_disk : fault::failed);
}

std::unexpected<store_error> refuse_full(const fs::path& folder) {
  return refuse(fmt::format("no space for the ledger in {}: free at least {} MiB there", folder.string(),
                            k_probe_bytes >> 20),
                fault::full_disk);
}

// A ledger made by hand or by an older umask is closed; a folder of something else is not touched.
std::expected<void, store_error> keep_private(const fs::path& folder) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) return refuse_io(folder, errno);
  if (!S_ISDIR(status.st_mode)) return refuse_io(folder, ENOTDIR);
  if ((status.st_mode & 077) == 0) return {};
  std::error_code error;
  if (!fs::exists(folder / "lock", error) && !fs::is_empty(folder, error)) {
    return refuse(
        fmt::format("{} holds something else and others may enter it: give the ledger a folder of its own",
                    folder.string()));
  }
  if (::chmod(folder.c_str(), 0700) != 0) {
    return refuse(
        fmt::format("others may enter the ledger's folder {}: run chmod 700 on it", folder.string()));
  }
  return {};
}

std::unexpected<store_error> refuse_damaged(const fs::path& folder, std::string_view detail) {
  return refuse(
      fmt::format("the ledger in {} is damaged ({}): restore the folder from a backup, or move it "
                  "away to start anew without its keys and without what was spent",
                  folder.string(), detail));
}

// Keeps RocksDB from going on by itself after a full disk: reopen() does, and reads everything anew.
class no_recovery final : public rocksdb::EventListener {
 public:
  const char* Name() const override { return "no_recovery"; }
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status, bool* recovers) override {
    *recovers = false;
  }
};

rocksdb::Options database_options(rocksdb::Env* env, std::size_t write_buffer_bytes) {
  rocksdb::Options options;
  options.env = env;
  options.compression = rocksdb::kNoCompression;
  options.write_buffer_size = write_buffer_bytes;
  options.max_write_buffer_number = 4;  // the commit thread shall not wait for a flush
  options.memtable_protection_bytes_per_key = k_protection_bytes;
  options.max_background_jobs = 2;
  options.keep_log_file_num = 2;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  options.paranoid_checks = true;
  options.track_and_verify_wals_in_manifest = true;
  options.max_bgerror_resume_count = 0;
  options.listeners.push_back(std::make_shared<no_recovery>());
  // A torn last record is what a power loss leaves of a batch that was never acknowledged; whether it was is
  // what the mark knows. Anything else in the log that does not match its checksum refuses to open.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  return options;
}

rocksdb::WriteOptions synced() {
  rocksdb::WriteOptions options;
  options.sync = true;
  return options;
}

constexpr std::string_view k_mark_magic = "weirmark";
constexpr std::size_t k_mark_bytes = 8 + 8 + 8;

std::string mark_of(std::uint64_t commit) {
  byte_writer out;
  const auto payload = out.number(commit).take();
  const auto sealed = seal(k_mark_magic, payload);
  return std::string(k_mark_magic) + payload + sealed.substr(sealed.size() - 8);
}

// The number in it, if it is a mark.
std::optional<std::uint64_t> read_mark(std::string_view bytes) {
  if (bytes.size() != k_mark_bytes || !bytes.starts_with(k_mark_magic)) return std::nullopt;
  byte_reader in(bytes.substr(k_mark_magic.size(), 8));
  const auto commit = in.number<std::uint64_t>();
  return mark_of(commit) == bytes ? std::optional(commit) : std::nullopt;
}

std::expected<void, store_error> sync_folder(const fs::path& folder) {
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool good = file >= 0 && ::fsync(file) == 0;
  const int error = errno;
  if (file >= 0) ::close(file);
  if (!good) return refuse_io(folder, error);
  return {};
}

std::expected<int, store_error> lock_folder(const fs::path& folder) {
  const auto path = folder / "lock";
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return refuse_io(path, errno);
  if (::flock(file, LOCK_EX | LOCK_NB) == 0) return file;
  const int error = errno;
  ::close(file);
  if (error != EWOULDBLOCK) return refuse_io(path, error);
  return refuse(
      fmt::format("the ledger in {} is in use: stop the gateway that has it, or give this one "
                  "another folder",
                  folder.string()));
}

}  // namespace

store::store(place with, int lock_file) : place_(std::move(with)), lock_file_(lock_file) {
  if (place_.env == nullptr) place_.env = rocksdb::Env::Default();
}

store::~store() {
  database_.reset();
  if (mark_file_ >= 0) ::close(mark_file_);
  ::flock(lock_file_, LOCK_UN);  // a child between fork and exec still holds a copy
  ::close(lock_file_);
}

std::expected<std::unique_ptr<store>, store_error> store::open(place with, contents& out) {
  std::error_code error;
  fs::create_directories(with.folder.parent_path(), error);
  if (::mkdir(with.folder.c_str(), 0700) != 0 && errno != EEXIST) return refuse_io(with.folder, errno);
  if (auto closed = keep_private(with.folder); !closed) return std::unexpected(std::move(closed.error()));
  auto locked = lock_folder(with.folder);
  if (!locked) return std::unexpected(std::move(locked.error()));
  std::unique_ptr<store> made(new store(std::move(with), *locked));
  // RocksDB ends the process where a database that is opened for writing meets a full disk.
  if (auto space = made->probe_space(); !space) return std::unexpected(std::move(space.error()));
  if (auto ready = made->prepare(); !ready) return std::unexpected(std::move(ready.error()));
  auto loaded = made->load();
  if (!loaded) return std::unexpected(std::move(loaded.error()));
  out = std::move(*loaded);
  return made;
}

// A database, old or new, under its name.
std::expected<void, store_error> store::prepare() {
  const auto& folder = place_.folder;
  std::error_code error;
  if (fs::exists(folder / "db", error)) return {};
  if (fs::exists(folder / "acknowledged", error)) {
    return refuse(
        fmt::format("the ledger in {0} has lost its database, {0}/db: restore the folder from a "
                    "backup, or move it away to start anew",
                    folder.string()));
  }
  fs::remove_all(folder / "db.new", error);
  if (auto made = make_database(); !made) return made;
  fs::rename(folder / "db.new", folder / "db", error);
  if (error) return refuse_io(folder / "db", error.value());
  return sync_folder(folder);
}

std::expected<void, store_error> store::make_database() {
  auto options = database_options(place_.env, place_.write_buffer_bytes);
  options.create_if_missing = true;
  rocksdb::DB* raw = nullptr;
  auto status = rocksdb::DB::Open(options, (place_.folder / "db.new").string(), &raw);
  const std::unique_ptr<rocksdb::DB> made(raw);
  if (status.ok()) {
    rocksdb::WriteBatch batch;
    const auto first = encode(state_record{});
    status = batch.Put(rocksdb::Slice(k_format_key.data(), k_format_key.size()), std::string(k_format_value));
    if (status.ok()) status = batch.Put(first.key, *first.value);
    if (status.ok()) status = made->Write(synced(), &batch);
  }
  if (status.IsNoSpace()) return refuse_full(place_.folder);
  if (!status.ok()) {
    return refuse(fmt::format("cannot make a ledger in {}: {}", place_.folder.string(), status.ToString()));
  }
  return {};
}

std::expected<contents, store_error> store::read(place with) {
  std::error_code error;
  if (!fs::exists(with.folder / "db", error)) {
    return refuse(fmt::format("there is no ledger in {}: name the folder that auth.ledger_dir names",
                              with.folder.string()));
  }
  auto locked = lock_folder(with.folder);
  if (!locked) return std::unexpected(std::move(locked.error()));
  return store(std::move(with), *locked).load_checked();
}

std::expected<contents, store_error> store::load_checked() const {
  const auto& folder = place_.folder;
  const auto name = (folder / "db").string();
  const auto options = database_options(place_.env, place_.write_buffer_bytes);
  rocksdb::DB* raw = nullptr;
  auto status = rocksdb::DB::OpenForReadOnly(options, name, &raw);
  std::unique_ptr<rocksdb::DB> reading(raw);
  if (status.IsNoSpace()) return refuse_full(folder);
  if (!status.ok()) return refuse_damaged(folder, status.ToString());
  auto loaded = load_contents(*reading);
  reading.reset();
  if (!loaded && loaded.error().what == load_fault::foreign) {
    return refuse(
        fmt::format("the ledger in {} has the format \"{}\", this gateway reads \"{}\": use the "
                    "version that wrote it, or give this one another folder",
                    folder.string(), loaded.error().detail, k_format_value));
  }
  if (!loaded) return refuse_damaged(folder, loaded.error().detail);
  return std::move(*loaded);
}

std::expected<contents, store_error> store::load() {
  const auto& folder = place_.folder;
  auto loaded = load_checked();
  if (!loaded) return loaded;
  const auto commit = loaded->sums.state().commit;
  if (auto checked = open_mark(commit); !checked) return std::unexpected(std::move(checked.error()));
  const auto options = database_options(place_.env, place_.write_buffer_bytes);
  rocksdb::DB* raw = nullptr;
  const auto status = rocksdb::DB::Open(options, (folder / "db").string(), &raw);
  database_.reset(raw);
  if (status.IsNoSpace()) return refuse_full(folder);
  if (!status.ok()) return refuse_damaged(folder, status.ToString());
  return std::move(*loaded);
}

std::expected<void, store_error> store::open_mark(std::uint64_t commit) {
  const auto path = place_.folder / "acknowledged";
  const bool is_new = mark_file_ < 0 && ::access(path.c_str(), F_OK) != 0;
  if (mark_file_ < 0) mark_file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (mark_file_ < 0) return refuse_io(path, errno);
  std::array<char, k_mark_bytes + 1> bytes{};
  const auto size = ::pread(mark_file_, bytes.data(), bytes.size(), 0);
  if (size < 0) return refuse_io(path, errno);
  if (is_new || size == 0) {  // empty: the first start died right here
    const auto mark = mark_of(commit);
    if (::pwrite(mark_file_, mark.data(), mark.size(), 0) != static_cast<ssize_t>(mark.size()) ||
        ::fsync(mark_file_) != 0) {
      return refuse_io(path, errno);
    }
    return sync_folder(place_.folder);
  }
  const auto marked = read_mark({bytes.data(), static_cast<std::size_t>(size)});
  if (!marked) return refuse_damaged(place_.folder, "its file acknowledged cannot be read");
  acknowledged_ = std::max(acknowledged_, *marked);
  if (commit >= acknowledged_) return {};
  return refuse(
      fmt::format("the ledger in {0} has lost its last {1} batches, which were acknowledged: restore "
                  "the folder from a backup, or delete {0}/acknowledged to go on without them",
                  place_.folder.string(), acknowledged_ - commit));
}

std::expected<void, store_error> store::write(std::span<const change> changes, std::uint64_t commit) {
  rocksdb::WriteBatch batch(0, 0, k_protection_bytes, 0);
  rocksdb::Status status;
  for (const auto& one : changes) {
    if (status.ok()) status = one.value ? batch.Put(one.key, *one.value) : batch.Delete(one.key);
  }
  if (status.ok()) status = database_->Write(synced(), &batch);
  if (status.IsNoSpace()) return refuse_full(place_.folder);
  if (!status.ok()) {
    return refuse(
        fmt::format("the ledger in {} cannot be written ({}): nothing is acknowledged any more; see "
                    "to the disk, then restart the gateway",
                    place_.folder.string(), status.ToString()));
  }
  acknowledged_ = commit;
  const auto mark = mark_of(commit);
  // A failure only weakens what the next open() can notice.
  [[maybe_unused]] const auto written = ::pwrite(mark_file_, mark.data(), mark.size(), 0);
  return {};
}

std::expected<void, store_error> store::probe_space() {
  const auto path = (place_.folder / "probe").string();
  std::unique_ptr<rocksdb::WritableFile> file;
  auto status = place_.env->NewWritableFile(path, &file, {});
  if (status.ok()) status = file->Append(std::string(k_probe_bytes, '\0'));
  if (status.ok()) status = file->Sync();
  if (file) file->Close().PermitUncheckedError();
  std::error_code ignored;
  fs::remove(path, ignored);
  if (status.IsNoSpace()) return refuse_full(place_.folder);
  if (!status.ok()) {
    return refuse(fmt::format("the ledger in {} cannot be written ({}): see to the disk",
                              place_.folder.string(), status.ToString()));
  }
  return {};
}

std::expected<contents, store_error> store::reopen() {
  if (auto space = probe_space(); !space) return std::unexpected(std::move(space.error()));
  database_.reset();
  return load();
}

std::string store::identity() const {
  std::string name;
  if (!database_->GetDbIdentity(name).ok()) return {};
  std::erase_if(name, [](unsigned char c) { return std::isalnum(c) == 0; });
  return name;
}

}  // namespace weir::gateway::ledger
