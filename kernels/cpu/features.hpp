// What the processor has beyond the instruction sets that Highway chooses among: the one place that asks. Any
// thread. An instruction set that is pinned (by a test) below AVX-512 takes these away too.
#pragma once

namespace weir::kernels::cpu {

bool has_bf16_dot() noexcept;  // pairs of bf16 into float32
bool has_int8_dot() noexcept;  // fours of unsigned by signed bytes into int32

}  // namespace weir::kernels::cpu
