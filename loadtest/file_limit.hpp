// Thousands of connections need thousands of file descriptors.
#pragma once

namespace weir::loadtest {

// Raises the process's soft limit of open files to its hard limit; without success nothing changes.
void raise_file_limit();

}  // namespace weir::loadtest
