#include "loadtest/file_limit.hpp"

#include <sys/resource.h>

namespace weir::loadtest {

void raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace weir::loadtest
