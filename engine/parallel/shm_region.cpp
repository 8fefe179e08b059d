#include "engine/parallel/shm_region.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <thread>
#include <utility>

namespace weir::engine::parallel {

namespace {

constexpr std::uint64_t k_magic = 0x7365'6b6e'6172'7765;
constexpr std::uint32_t k_protocol = 1;
constexpr std::size_t k_page = 4096;
constexpr std::chrono::milliseconds k_retry{10};
constexpr int k_stale_files_max = 8;  // that rank 0 removes before it gives up

struct region_header {
  std::uint64_t magic;
  std::uint32_t protocol;
  std::uint32_t size;
  std::uint64_t chunk_bytes;
  char build[k_build_bytes_max + 1];
  alignas(128) std::atomic<std::uint32_t> lost;
};
static_assert(sizeof(region_header) <= k_page);

constexpr std::size_t slots_bytes(int size) {
  return (sizeof(rank_slot) * static_cast<std::size_t>(size) + k_page - 1) / k_page * k_page;
}
constexpr std::size_t region_bytes(int size) {
  return k_page + slots_bytes(size) + 2 * k_chunk_bytes * static_cast<std::size_t>(size);
}

std::unexpected<error> io_fault(const std::string& what) {
  return fail(errc::io, what + ": " + std::strerror(errno));
}

struct flock lock_of(int first, int count) {
  struct flock out {};
  out.l_type = F_WRLCK;
  out.l_whence = SEEK_SET;
  out.l_start = first;
  out.l_len = count;
  return out;
}

bool take_lock(int fd, int rank) {
  struct flock lock = lock_of(rank, 1);
  return ::fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

bool is_locked(int fd, int first, int count) {
  struct flock lock = lock_of(first, count);
  return ::fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

class file final {
 public:
  explicit file(const std::string& path) : fd_(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC)) {}
  ~file() {
    if (fd_ >= 0) ::close(fd_);
  }
  file(const file&) = delete;
  file& operator=(const file&) = delete;
  int get() const noexcept { return fd_; }
  int release() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

bool is_private_file(const struct stat& s) {
  return S_ISREG(s.st_mode) && s.st_uid == ::geteuid() && (s.st_mode & 077) == 0;
}

}  // namespace

result<std::unique_ptr<shm_region>> shm_region::open(const shm_options& options) {
  std::unique_ptr<shm_region> out(new shm_region("/dev/shm/" + options.name, options.size));
  if (options.rank == 0) {
    if (auto made = out->make(options); !made) return std::unexpected(made.error());
    return out;
  }
  const auto until = std::chrono::steady_clock::now() + options.join_timeout;
  for (;;) {
    const auto joined = out->join(options);
    if (!joined) return std::unexpected(joined.error());
    if (*joined) return out;
    if (std::chrono::steady_clock::now() > until) {
      return fail(errc::io, "rank 0 is not on this machine, or not yet: no " + out->path_ +
                                " of a running one "
                                "within " +
                                std::to_string(options.join_timeout.count() / 1000) + " s");
    }
    std::this_thread::sleep_for(k_retry);
  }
}

shm_region::~shm_region() {
  unlink();
  if (data_ != nullptr) ::munmap(data_, region_bytes(size_));
  if (fd_ >= 0) ::close(fd_);
}

void shm_region::unlink() noexcept {
  if (std::exchange(named_, false)) ::unlink(path_.c_str());
}

// Complete and locked before it has a name.
result<void> shm_region::make(const shm_options& options) {
  fd_ = ::open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd_ < 0) return io_fault("no shared memory in /dev/shm");
  if ((errno = ::posix_fallocate(fd_, 0, static_cast<off_t>(region_bytes(size_)))) != 0) {
    return io_fault("no room for " + std::to_string(region_bytes(size_)) + " bytes in /dev/shm");
  }
  if (auto mapped = map(); !mapped) return mapped;
  auto* const header = new (data_) region_header{};
  header->magic = k_magic;
  header->protocol = k_protocol;
  header->size = static_cast<std::uint32_t>(size_);
  header->chunk_bytes = k_chunk_bytes;
  options.build.copy(header->build, k_build_bytes_max);
  for (int rank = 0; rank < size_; ++rank) new (&slot(rank)) rank_slot{};
  if (!take_lock(fd_, 0)) return io_fault("/dev/shm takes no locks");
  return publish();
}

result<void> shm_region::publish() {
  const std::string mine = "/proc/self/fd/" + std::to_string(fd_);
  for (int i = 0; i <= k_stale_files_max; ++i) {
    if (::linkat(AT_FDCWD, mine.c_str(), AT_FDCWD, path_.c_str(), AT_SYMLINK_FOLLOW) == 0) {
      named_ = true;
      return {};
    }
    if (errno != EEXIST) return io_fault(path_);
    const file other(path_);
    if (other.get() < 0 && errno == ENOENT) continue;
    struct stat facts {};
    if (other.get() < 0 || ::fstat(other.get(), &facts) != 0 || !is_private_file(facts)) {
      return fail(errc::io, path_ + " is in the way, and not of this user's ranks");
    }
    if (is_locked(other.get(), 0, k_ranks_max)) {
      return fail(errc::io, path_ + " belongs to ranks that run: choose another MASTER_PORT");
    }
    ::unlink(path_.c_str());
  }
  return fail(errc::io, path_ + " keeps coming back: choose another MASTER_PORT");
}

// False: there is none yet, or only what an earlier run left.
result<bool> shm_region::join(const shm_options& options) {
  file found(path_);
  if (found.get() < 0) {
    if (errno == ENOENT) return false;
    return io_fault(path_);
  }
  struct stat facts {};
  if (::fstat(found.get(), &facts) != 0) return io_fault(path_);
  if (!is_private_file(facts)) return fail(errc::io, path_ + " is not a file of this user alone");
  if (!is_locked(found.get(), 0, 1)) return false;
  // A page at the least is there, so the header can be read whatever the rest is.
  if (facts.st_size < static_cast<off_t>(k_page)) return fail(errc::io, path_ + " is too short");
  void* const page = ::mmap(nullptr, k_page, PROT_READ, MAP_SHARED, found.get(), 0);
  if (page == MAP_FAILED) return io_fault(path_);
  region_header seen{};
  std::memcpy(static_cast<void*>(&seen), page, offsetof(region_header, lost));
  ::munmap(page, k_page);
  seen.build[k_build_bytes_max] = '\0';
  if (seen.magic != k_magic || seen.protocol != k_protocol || seen.chunk_bytes != k_chunk_bytes ||
      options.build != seen.build) {
    return fail(errc::bad_request, "rank 0 runs another build (" + std::string(seen.build) + ") than rank " +
                                       std::to_string(options.rank) + " (" + options.build + ")");
  }
  if (seen.size != static_cast<std::uint32_t>(size_)) {
    return fail(errc::bad_request, "rank 0 was started with " + std::to_string(seen.size) + " ranks, rank " +
                                       std::to_string(options.rank) + " with " + std::to_string(size_));
  }
  if (facts.st_size != static_cast<off_t>(region_bytes(size_))) {
    return fail(errc::io, path_ + " has " + std::to_string(facts.st_size) + " bytes, not " +
                              std::to_string(region_bytes(size_)));
  }
  if (!take_lock(found.get(), options.rank)) {
    return fail(errc::bad_request, "there is a rank " + std::to_string(options.rank) + " already");
  }
  fd_ = found.release();
  if (auto mapped = map(); !mapped) return std::unexpected(mapped.error());
  return true;
}

result<void> shm_region::map() {
  void* const made = ::mmap(nullptr, region_bytes(size_), PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (made == MAP_FAILED) return io_fault(path_);
  data_ = static_cast<std::byte*>(made);
  return {};
}

rank_slot& shm_region::slot(int rank) noexcept {
  return reinterpret_cast<rank_slot*>(data_ + k_page)[rank];
}

std::atomic<std::uint32_t>& shm_region::lost() noexcept {
  return reinterpret_cast<region_header*>(data_)->lost;
}

std::byte* shm_region::chunk(int rank, std::uint32_t round) noexcept {
  const auto index = 2 * static_cast<std::size_t>(rank) + round % 2;
  return data_ + k_page + slots_bytes(size_) + index * k_chunk_bytes;
}

bool shm_region::lives(int rank) const noexcept {
  return is_locked(fd_, rank, 1);
}

}  // namespace weir::engine::parallel
