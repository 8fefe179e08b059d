// Preloaded into a process, lets its syncs fail as those of a broken disk: with EIO while the synced file's
// folder holds a file called "broken".
#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>

namespace {

bool is_broken(int file) {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(file), error);
  return !error && std::filesystem::exists(path.parent_path() / "broken", error);
}

int sync_unless_broken(const char* name, int file) {
  if (is_broken(file)) {
    errno = EIO;
    return -1;
  }
  return reinterpret_cast<int (*)(int)>(::dlsym(RTLD_NEXT, name))(file);
}

}  // namespace

extern "C" int fsync(int file) {
  return sync_unless_broken("fsync", file);
}

extern "C" int fdatasync(int file) {
  return sync_unless_broken("fdatasync", file);
}
