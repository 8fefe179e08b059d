#include "tests/cuda_emulator/stack_switch.hpp"

#include <cstdint>

namespace cuda_emulator {

#if defined(__x86_64__)

// What a function must leave as it was (System V ABI) goes onto the old stack and comes from the new one.
extern "C" void weir_jump_stack(void** save_top, void* top);
asm(R"(
.text
.globl weir_jump_stack
.type weir_jump_stack, @function
weir_jump_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size weir_jump_stack, .-weir_jump_stack
)");

void stack_switch::prepare(std::byte* stack, std::size_t bytes, void (*entry)()) noexcept {
  constexpr int k_registers = 6;
  const auto end = reinterpret_cast<std::uintptr_t>(stack + bytes) & ~std::uintptr_t{15};
  auto* const top = reinterpret_cast<void**>(end) - 2;  // a function begins 8 bytes off a multiple of 16
  top[0] = reinterpret_cast<void*>(entry);
  top[1] = nullptr;
  for (int i = 1; i <= k_registers; ++i) top[-i] = nullptr;
  top_ = top - k_registers;
}

void stack_switch::jump(stack_switch& from, stack_switch& to) noexcept {
  weir_jump_stack(&from.top_, to.top_);
}

#else

void stack_switch::prepare(std::byte* stack, std::size_t bytes, void (*entry)()) noexcept {
  getcontext(&context_);
  context_.uc_stack.ss_sp = stack;
  context_.uc_stack.ss_size = bytes;
  context_.uc_link = nullptr;
  makecontext(&context_, entry, 0);
}

void stack_switch::jump(stack_switch& from, stack_switch& to) noexcept {
  swapcontext(&from.context_, &to.context_);
}

#endif

}  // namespace cuda_emulator
