#include "tests/gateway/ledger/faulty_files.hpp"

#include <rocksdb/file_system.h>

#include <algorithm>
#include <mutex>
#include <random>
#include <string>
#include <utility>

namespace weir::gateway::ledger {

namespace {

using rocksdb::FSWritableFile;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

class faulty_file final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  faulty_file(std::unique_ptr<FSWritableFile> target, disk_faults& faults)
      : FSWritableFileOwnerWrapper(std::move(target)), faults_(faults), random_(faults.forgets_seed) {}

  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options, IODebugContext* debug) override {
    const auto size = static_cast<std::int64_t>(data.size());
    const auto space = faults_.space_bytes.fetch_sub(size);
    if (space < size) {
      faults_.space_bytes = 0;
      const auto fits = static_cast<std::size_t>(std::max<std::int64_t>(0, space));
      put(rocksdb::Slice(data.data(), fits), options, debug).PermitUncheckedError();
      return IOStatus::NoSpace("injected");
    }
    return put(data, options, debug);
  }
  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options, const rocksdb::DataVerificationInfo&,
                  IODebugContext* debug) override {
    return Append(data, options, debug);
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    if (faults_.sync_fails) return IOStatus::IOError("injected: sync");
    if (faults_.sync_is_full) return IOStatus::NoSpace("injected: sync");
    return forgets() ? keep(unsynced_.size(), options, debug) : target()->Sync(options, debug);
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override { return Sync(options, debug); }

 private:
  bool forgets() const { return faults_.forgets_seed != 0; }

  IOStatus put(const rocksdb::Slice& data, const IOOptions& options, IODebugContext* debug) {
    if (!forgets()) return target()->Append(data, options, debug);
    unsynced_.append(data.data(), data.size());
    if (random_() % 8 != 0) return IOStatus::OK();
    return keep(random_() % (unsynced_.size() + 1), options, debug);
  }
  IOStatus keep(std::size_t bytes, const IOOptions& options, IODebugContext* debug) {
    const auto status = target()->Append(rocksdb::Slice(unsynced_.data(), bytes), options, debug);
    unsynced_.erase(0, bytes);
    return status;
  }

  disk_faults& faults_;
  std::string unsynced_;
  std::minstd_rand random_;
};

class faulty_files final : public rocksdb::FileSystemWrapper {
 public:
  explicit faulty_files(disk_faults& faults)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), faults_(faults) {}
  const char* Name() const override { return "faulty_files"; }

  IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                           std::unique_ptr<FSWritableFile>* file, IODebugContext* debug) override {
    auto status = target()->NewWritableFile(name, options, file, debug);
    if (status.ok()) *file = std::make_unique<faulty_file>(std::move(*file), faults_);
    return status;
  }

 private:
  disk_faults& faults_;
};

}  // namespace

std::unique_ptr<rocksdb::Env> make_faulty_env(disk_faults& faults) {
  return rocksdb::NewCompositeEnv(std::make_shared<faulty_files>(faults));
}

}  // namespace weir::gateway::ledger
