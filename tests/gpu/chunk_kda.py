"""flash-linear-attention's Triton chunk_kda over 8,192 tokens of 32 heads: what KDA's prefill is compared with."""
import torch
from fla.ops.kda import chunk_kda
from triton.testing import do_bench

tokens, heads, dim = 8192, 32, 128
make = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
q, k, v = (make(1, tokens, heads, dim) for _ in range(3))
q, k = (torch.nn.functional.normalize(x.float(), dim=-1).bfloat16() for x in (q, k))
g = -torch.rand(1, tokens, heads, dim, device="cuda")
beta = torch.rand(1, tokens, heads, device="cuda", dtype=torch.bfloat16)
ms = do_bench(lambda: chunk_kda(q, k, v, g, beta, output_final_state=True))
print(f"chunk_kda    1 x {tokens} tokens, {heads} heads {ms * 1e3:32.1f} us")
