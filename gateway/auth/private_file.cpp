#include "gateway/auth/private_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace weir::gateway::auth {

std::expected<std::string, std::string> read_private_file(const std::filesystem::path& file,
                                                          std::size_t bytes_max) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) {
    return std::unexpected(fmt::format("{}: cannot be read", file.string()));
  }
  // Opening a pipe would wait for a writer.
  if (!S_ISREG(status.st_mode)) return std::unexpected(fmt::format("{}: is no plain file", file.string()));
  std::ifstream in(file, std::ios::binary);
  if (!in) return std::unexpected(fmt::format("{}: cannot be read", file.string()));
  if ((status.st_mode & 077) != 0) {
    return std::unexpected(fmt::format("{}: others may read it; run chmod 600 on it", file.string()));
  }
  constexpr std::size_t k_line_end_bytes = 2;
  std::string text(bytes_max + k_line_end_bytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  if (text.size() > bytes_max) {
    return std::unexpected(fmt::format("{}: holds more than {} bytes", file.string(), bytes_max));
  }
  return text;
}

std::expected<void, std::string> create_private_file(const std::filesystem::path& file,
                                                     std::string_view text) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0)
    return std::unexpected(fmt::format("{}: cannot be created: {}", file.string(), std::strerror(errno)));
  const std::string line = std::string(text) + "\n";
  const bool written =
      ::write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size()) && ::fsync(fd) == 0;
  ::close(fd);
  if (written) return {};
  ::unlink(file.c_str());
  return std::unexpected(fmt::format("{}: cannot be written", file.string()));
}

}  // namespace weir::gateway::auth
