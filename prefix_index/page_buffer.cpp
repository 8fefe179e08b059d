#include "prefix_index/page_buffer.hpp"

#include <sys/mman.h>

#include <new>

namespace weir::prefix_index {

page_buffer::page_buffer(std::size_t bytes)
    : bytes_((bytes + k_buffer_page_bytes - 1) / k_buffer_page_bytes * k_buffer_page_bytes) {
  void* p =
      ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  data_ = p;
}

page_buffer::~page_buffer() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace weir::prefix_index
