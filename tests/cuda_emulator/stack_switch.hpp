// Stacks that one thread changes between, as fibers do: far quicker than ucontext's functions, which ask the
// kernel for the signal mask each time. x86-64; elsewhere by ucontext. One thread.
#pragma once

#include <cstddef>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace cuda_emulator {

class stack_switch final {
 public:
  // The next jump() to it calls entry(), which must not return, on the given stack.
  void prepare(std::byte* stack, std::size_t bytes, void (*entry)()) noexcept;

  // Goes on in `to`; returns when somebody jumps to `from`.
  static void jump(stack_switch& from, stack_switch& to) noexcept;

 private:
#if defined(__x86_64__)
  void* top_ = nullptr;  // of a stack that is not running; registers lie on it
#else
  ucontext_t context_{};
#endif
};

}  // namespace cuda_emulator
