// What this machine can do at best: what speeds of the engine are compared with. Blocks; one thread calls,
// the pool's work.
#pragma once

#include "kernels/parallel.hpp"
#include "kernels/table.hpp"

namespace weir::kernels {

struct machine_limits {
  double read_bytes_per_s = 0;  // of memory far larger than any cache, by all threads together
  double flops_per_s = 0;       // float32 multiply-adds (two each) on registers alone, by all threads
  double bf16_flops_per_s = 0;  // the same of bf16 pairs into float32; 0 where the processor lacks it
  double int8_ops_per_s = 0;    // the same of fours of bytes into int32
};

// The peak of the multiply-adds that products over `weights` are made of, two operations each. float32, where
// the processor has nothing for the narrow formats.
double peak_of(const machine_limits& machine, dtype weights, activation_format activations) noexcept;

// Takes about two seconds and 1 GiB. Throws std::bad_alloc.
machine_limits measure_machine(thread_pool& pool);

// The instruction set that operations run with, as Highway names it.
const char* instruction_set() noexcept;

}  // namespace weir::kernels
