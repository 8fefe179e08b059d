#include "engine/model/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace weir::engine::model {

namespace {

class descriptor final {
 public:
  explicit descriptor(int fd) : fd_(fd) {}
  ~descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

std::unexpected<error> io_error(const std::filesystem::path& path, std::string_view action) {
  const std::string reason = std::generic_category().message(errno);
  return fail(errc::io, std::string(action) + " " + path.string() + ": " + reason);
}

result<std::size_t> file_size(const descriptor& fd, const std::filesystem::path& path) {
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return io_error(path, "cannot stat");
  if (!S_ISREG(info.st_mode)) return fail(errc::io, path.string() + " is not a regular file");
  return static_cast<std::size_t>(info.st_size);
}

}  // namespace

mapped_file::~mapped_file() {
  if (size_ > 0) ::munmap(const_cast<std::byte*>(data_), size_);
}

result<std::shared_ptr<const mapped_file>> mapped_file::open(const std::filesystem::path& path) {
  // Without waiting: a pipe that nobody writes to would hold us for ever.
  const descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return io_error(path, "cannot open");
  const auto size = file_size(fd, path);
  if (!size) return std::unexpected(size.error());
  if (*size == 0) return std::make_shared<const mapped_file>(nullptr, 0);
  void* place = ::mmap(nullptr, *size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (place == MAP_FAILED) return io_error(path, "cannot map");
  return std::make_shared<const mapped_file>(static_cast<const std::byte*>(place), *size);
}

result<std::string> read_file(const std::filesystem::path& path, std::size_t bytes_max) {
  const auto file = mapped_file::open(path);
  if (!file) return std::unexpected(file.error());
  const auto bytes = (*file)->bytes();
  if (bytes.size() > bytes_max) {
    return fail(errc::bad_model, path.string() + " is larger than " + std::to_string(bytes_max) + " bytes");
  }
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace weir::engine::model
