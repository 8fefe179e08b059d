"""An independent PyTorch reference of the Kimi-Linear and Kimi-K3 (text) layer stacks, written from the published equations.

Names follow the Hugging Face checkpoints (config.json fields and tensor names of moonshotai/Kimi-Linear-48B-A3B
and moonshotai/Kimi-K3), so a checkpoint saved here loads in any engine that loads the real one.
Used to make golden values (float64, token by token) and to train the tiny checkpoint (float32, chunked).
"""
import json, math, struct
import torch
import torch.nn as nn
import torch.nn.functional as F


class RMSNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


class ShortConv(nn.Module):
    """Depthwise causal convolution, no bias, then SiLU. weight [channels, 1, kernel]."""

    def __init__(self, dim, kernel):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dim, 1, kernel) * 0.3)
        self.kernel = kernel

    def forward(self, x):  # x [B, T, C]
        y = F.conv1d(F.pad(x.transpose(1, 2), (self.kernel - 1, 0)), self.weight, groups=x.shape[-1])
        return F.silu(y).transpose(1, 2)


def kda_recurrent(q, k, v, g, beta, state=None):
    """Token by token. q,k,g [B,T,H,Dk], v [B,T,H,Dv], beta [B,T,H] -> o [B,T,H,Dv], S [B,H,Dk,Dv]."""
    B, T, H, Dk = q.shape
    S = q.new_zeros(B, H, Dk, v.shape[-1]) if state is None else state
    out = []
    for t in range(T):
        S = S * g[:, t].exp().unsqueeze(-1)
        u = beta[:, t].unsqueeze(-1) * (v[:, t] - torch.einsum("bhd,bhdv->bhv", k[:, t], S))
        S = S + k[:, t].unsqueeze(-1) * u.unsqueeze(-2)
        out.append(torch.einsum("bhd,bhdv->bhv", q[:, t], S))
    return torch.stack(out, 1), S


def kda_chunked(q, k, v, g, beta, C=16):
    """The same in chunks of C tokens (WY form), decay differences taken before the exponential."""
    B, T, H, Dk = q.shape
    Dv = v.shape[-1]
    n = (T + C - 1) // C
    pad = n * C - T
    if pad:
        q, k, v, g = (F.pad(a, (0, 0, 0, 0, 0, pad)) for a in (q, k, v, g))
        beta = F.pad(beta, (0, 0, 0, pad))
    q, k, v, g = (a.view(B, n, C, H, -1).permute(0, 3, 1, 2, 4) for a in (q, k, v, g))  # [B,H,n,C,D]
    beta = beta.view(B, n, C, H).permute(0, 3, 1, 2).unsqueeze(-1)
    G = g.cumsum(3)
    D = (G.unsqueeze(4) - G.unsqueeze(3)).clamp(max=0).exp()  # [B,H,n,i,j,D], used for j<=i
    A = torch.einsum("bhnid,bhnjd,bhnijd->bhnij", k, k, D).tril(-1)
    Bq = torch.einsum("bhnid,bhnjd,bhnijd->bhnij", q, k, D).tril(0)
    eye = torch.eye(C, dtype=q.dtype)
    M = eye + beta * A
    KG, QG, KE = k * G.exp(), q * G.exp(), k * (G[:, :, :, -1:] - G).exp()
    X = torch.linalg.solve_triangular(M, beta * torch.cat([v, KG], -1), upper=False, unitriangular=True)
    W, Y = X[..., :Dv], X[..., Dv:]  # u = W - Y S0
    S = q.new_zeros(B, H, Dk, Dv)
    outs = []
    decay = G[:, :, :, -1].exp().unsqueeze(-1)
    for c in range(n):
        u = W[:, :, c] - Y[:, :, c] @ S
        outs.append(QG[:, :, c] @ S + Bq[:, :, c] @ u)
        S = S * decay[:, :, c] + KE[:, :, c].transpose(-1, -2) @ u
    o = torch.stack(outs, 2).permute(0, 2, 3, 1, 4).reshape(B, n * C, H, Dv)
    return o[:, :T], S


def kda_train(q, k, v, g, beta, C=16):
    """kda_chunked with factored decays: exact while every g >= -5 (what lies below is clamped there); for training."""
    B, T, H, Dk = q.shape
    Dv = v.shape[-1]
    n = (T + C - 1) // C
    pad = n * C - T
    if pad:
        q, k, v, g = (F.pad(a, (0, 0, 0, 0, 0, pad)) for a in (q, k, v, g))
        beta = F.pad(beta, (0, 0, 0, pad))
    q, k, v, g = (a.reshape(B, n, C, H, -1).permute(0, 3, 1, 2, 4) for a in (q, k, v, g.clamp(min=-5)))
    beta = beta.view(B, n, C, H).permute(0, 3, 1, 2).unsqueeze(-1)
    G = g.cumsum(3)
    up = G.exp()
    KG, QG, KN = k * up, q * up, k * (-G).exp()
    A = (KG @ KN.transpose(-1, -2)).tril(-1)
    Bq = (QG @ KN.transpose(-1, -2)).tril(0)
    KE = k * (G[:, :, :, -1:] - G).exp()
    N = -(beta * A)
    inv = torch.eye(C) + N
    P = N  # (I - N)^-1 = prod (I + N^(2^i)), N nilpotent
    for _ in range(3):
        P = P @ P
        inv = inv + inv @ P
    X = inv @ (beta * torch.cat([v, KG], -1))
    W, Y = X[..., :Dv], X[..., Dv:]
    S = q.new_zeros(B, H, Dk, Dv)
    outs = []
    decay = up[:, :, :, -1].unsqueeze(-1)
    for c in range(n):
        u = W[:, :, c] - Y[:, :, c] @ S
        outs.append(QG[:, :, c] @ S + Bq[:, :, c] @ u)
        S = S * decay[:, :, c] + KE[:, :, c].transpose(-1, -2) @ u
    return torch.stack(outs, 2).permute(0, 2, 3, 1, 4).reshape(B, n * C, H, Dv)[:, :T], S


class KDA(nn.Module):
    def __init__(self, c):
        super().__init__()
        la = c["linear_attn_config"]
        self.H, self.D = la["num_heads"], la["head_dim"]
        P = self.H * self.D
        E = c["hidden_size"]
        for n in "qkv":
            setattr(self, n + "_proj", nn.Linear(E, P, bias=False))
            setattr(self, n + "_conv1d", ShortConv(P, la["short_conv_kernel_size"]))
        A = torch.log(torch.empty(self.H).uniform_(1, 16))
        self.A_log = nn.Parameter(
            A.view(1, 1, self.H, 1) if "a_log_pad" not in c else F.pad(A, (0, c["a_log_pad"] - self.H))
        )
        self.dt_bias = nn.Parameter(torch.empty(P).uniform_(-6, -2))
        self.f_a_proj = nn.Linear(E, self.D, bias=False)
        self.f_b_proj = nn.Linear(self.D, P, bias=False)
        self.bound = la.get("gate_lower_bound", c.get("gate_lower_bound"))
        self.full = c.get("use_full_rank_gate", la.get("use_full_rank_gate", False))
        if self.full:
            self.g_proj = nn.Linear(E, P, bias=False)
        else:
            self.g_a_proj = nn.Linear(E, self.D, bias=False)
            self.g_b_proj = nn.Linear(self.D, P, bias=False)
        self.b_proj = nn.Linear(E, self.H, bias=False)
        self.o_proj = nn.Linear(P, E, bias=False)
        self.o_norm = RMSNorm(self.D, c["rms_norm_eps"])
        self.chunked = False

    def forward(self, x):
        B, T, _ = x.shape
        sh = (B, T, self.H, self.D)
        q, k, v = (getattr(self, n + "_conv1d")(getattr(self, n + "_proj")(x)).view(sh) for n in "qkv")
        q = q * torch.rsqrt(q.pow(2).sum(-1, keepdim=True) + 1e-6) * self.D**-0.5
        k = k * torch.rsqrt(k.pow(2).sum(-1, keepdim=True) + 1e-6)
        z = self.f_b_proj(self.f_a_proj(x)).view(sh) + self.dt_bias.view(self.H, self.D)
        a = self.A_log.exp().view(-1)[: self.H].view(1, 1, self.H, 1)
        g = -a * F.softplus(z) if self.bound is None else self.bound * (a * z).sigmoid()
        beta = self.b_proj(x).sigmoid()
        o, self.last_state = {False: kda_recurrent, True: kda_chunked, "train": kda_train}[self.chunked](
            q, k, v, g, beta
        )
        gate = (self.g_proj(x) if self.full else self.g_b_proj(self.g_a_proj(x))).view(sh).sigmoid()
        return self.o_proj((self.o_norm(o) * gate).reshape(B, T, -1))


class MLA(nn.Module):
    """Multi-head latent attention without position encoding (NoPE)."""

    def __init__(self, c):
        super().__init__()
        self.H, self.dn, self.dr, self.dv, self.r = (
            c["num_attention_heads"],
            c["qk_nope_head_dim"],
            c["qk_rope_head_dim"],
            c["v_head_dim"],
            c["kv_lora_rank"],
        )
        E = c["hidden_size"]
        Q = c.get("q_lora_rank")
        self.gated = c.get("mla_use_output_gate", False)
        if Q:
            self.q_a_proj = nn.Linear(E, Q, bias=False)
            self.q_a_layernorm = RMSNorm(Q, 1e-6)
            self.q_b_proj = nn.Linear(Q, self.H * (self.dn + self.dr), bias=False)
        else:
            self.q_proj = nn.Linear(E, self.H * (self.dn + self.dr), bias=False)
        if self.gated:
            self.g_proj = nn.Linear(E, self.H * self.dv, bias=False)
        self.kv_a_proj_with_mqa = nn.Linear(E, self.r + self.dr, bias=False)
        self.kv_a_layernorm = RMSNorm(
            self.r, 1e-6
        )  # the class default in the published code, not rms_norm_eps
        self.kv_b_proj = nn.Linear(self.r, self.H * (self.dn + self.dv), bias=False)
        self.o_proj = nn.Linear(self.H * self.dv, E, bias=False)

    def forward(self, x):
        B, T, _ = x.shape
        q = (
            (
                self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x)))
                if hasattr(self, "q_a_proj")
                else self.q_proj(x)
            )
            .view(B, T, self.H, -1)
            .transpose(1, 2)
        )
        ckv, kr = self.kv_a_proj_with_mqa(x).split([self.r, self.dr], -1)
        kv = self.kv_b_proj(self.kv_a_layernorm(ckv)).view(B, T, self.H, -1).transpose(1, 2)
        kn, v = kv.split([self.dn, self.dv], -1)
        k = torch.cat([kn, kr.unsqueeze(1).expand(B, self.H, T, self.dr)], -1)
        s = q @ k.transpose(-1, -2) * (self.dn + self.dr) ** -0.5
        s = s.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), float("-inf")).softmax(-1)
        o = (s @ v).transpose(1, 2).reshape(B, T, -1)
        return self.o_proj(o * self.g_proj(x).sigmoid() if self.gated else o)


def situ(g, u, beta, linear_beta):
    return beta * torch.tanh(g / beta) * torch.sigmoid(g) * linear_beta * torch.tanh(u / linear_beta)


class MLP(nn.Module):
    def __init__(self, c, E, I, names=("gate_proj", "up_proj", "down_proj")):
        super().__init__()
        self.n = names
        self.c = c
        setattr(self, names[0], nn.Linear(E, I, bias=False))
        setattr(self, names[1], nn.Linear(E, I, bias=False))
        setattr(self, names[2], nn.Linear(I, E, bias=False))

    def forward(self, x):
        g, u, d = (getattr(self, n) for n in self.n)
        return d(
            situ(g(x), u(x), self.c["activation_situ_beta"], self.c["activation_situ_linear_beta"])
            if self.c["hidden_act"] == "situ"
            else F.silu(g(x)) * u(x)
        )


class Gate(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.weight = nn.Parameter(torch.randn(c["num_experts"], c["hidden_size"]) * c["hidden_size"] ** -0.5)
        self.e_score_correction_bias = nn.Parameter(torch.zeros(c["num_experts"]), requires_grad=False)

    def forward(self, x):
        s = (x @ self.weight.T).sigmoid()
        idx = (s + self.e_score_correction_bias).topk(self.c["num_experts_per_token"], -1).indices
        w = s.gather(-1, idx)
        if self.c["moe_renormalize"]:
            w = w / (w.sum(-1, keepdim=True) + 1e-20)
        return idx, w * self.c["routed_scaling_factor"]


class MoE(nn.Module):
    """Routed experts (in a latent space when routed_expert_hidden_size is set) plus unweighted shared experts."""

    def __init__(self, c):
        super().__init__()
        E, L = c["hidden_size"], c.get("routed_expert_hidden_size")
        X = L or E
        self.latent = bool(L)
        self.gate = Gate(c)
        self.experts = nn.ModuleList(
            [MLP(c, X, c["moe_intermediate_size"], ("w1", "w3", "w2")) for _ in range(c["num_experts"])]
        )
        self.shared_experts = MLP(c, E, c["moe_intermediate_size"] * c["num_shared_experts"])
        if L:
            self.routed_expert_down_proj = nn.Linear(E, L, bias=False)
            self.routed_expert_up_proj = nn.Linear(L, E, bias=False)
            self.routed_expert_norm = RMSNorm(L, c["rms_norm_eps"])

    def forward(self, x):
        f = x.reshape(-1, x.shape[-1])
        idx, w = self.gate(f)
        r = self.routed_expert_down_proj(f) if self.latent else f
        y = torch.zeros_like(r)
        self.load = torch.bincount(idx.reshape(-1), minlength=len(self.experts)).float()
        for e, ex in enumerate(self.experts):
            t, slot = (idx == e).nonzero(as_tuple=True)
            if len(t):
                y = y.index_add(0, t, ex(r[t]) * w[t, slot].unsqueeze(-1))
        if self.latent:
            y = self.routed_expert_up_proj(self.routed_expert_norm(y))
        return (y + self.shared_experts(f)).view_as(x)


class Layer(nn.Module):
    def __init__(self, c, i):
        super().__init__()
        self.is_kda = (i + 1) in c["linear_attn_config"]["kda_layers"]
        self.self_attn = KDA(c) if self.is_kda else MLA(c)
        if i >= c["first_k_dense_replace"]:
            self.block_sparse_moe = MoE(c)
        else:
            self.mlp = MLP(c, c["hidden_size"], c["intermediate_size"])
        self.input_layernorm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])
        self.post_attention_layernorm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])
        self.i, self.block = i, c.get("attn_res_block_size")
        if self.block:
            for n in ("self_attention_res", "mlp_res"):
                setattr(self, n + "_norm", RMSNorm(c["hidden_size"], c["rms_norm_eps"]))
                setattr(self, n + "_proj", nn.Linear(c["hidden_size"], 1, bias=False))

    def mlp_part(self, x):
        return (self.block_sparse_moe if hasattr(self, "block_sparse_moe") else self.mlp)(
            self.post_attention_layernorm(x)
        )

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp_part(x)

    def forward_residual(self, B, p):
        """One layer with block attention residuals: B the finished block vectors, p the running stream."""
        h = mix(B + [p], self.self_attention_res_norm, self.self_attention_res_proj) if B else p
        if self.i % self.block == 0:
            B = B + [p]
            p = None
        a = self.self_attn(self.input_layernorm(h))
        p = a if p is None else p + a
        return B, p + self.mlp_part(mix(B + [p], self.mlp_res_norm, self.mlp_res_proj))


def mix(V, norm, proj):
    """Softmax over the sources (per token) of <V normalised, norm.weight * proj.weight>, applied to the raw V."""
    V = torch.stack(V)  # [sources, B, T, E]
    score = (
        V * torch.rsqrt(V.pow(2).mean(-1, keepdim=True) + norm.eps) * (norm.weight * proj.weight[0])
    ).sum(-1, keepdim=True)
    return (score.softmax(0) * V).sum(0)


class Body(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.layers = nn.ModuleList([Layer(c, i) for i in range(c["num_hidden_layers"])])
        self.norm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])
        if c.get("attn_res_block_size"):
            self.output_attn_res_norm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])
            self.output_attn_res_proj = nn.Linear(c["hidden_size"], 1, bias=False)


class KimiLinear(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.model = Body(c)
        self.lm_head = nn.Linear(c["hidden_size"], c["vocab_size"], bias=False)

    def forward(self, ids):
        x = self.model.embed_tokens(ids)
        if self.c.get("attn_res_block_size"):
            B, p = [], x
            for l in self.model.layers:
                B, p = l.forward_residual(B, p)
            x = mix(B + [p], self.model.output_attn_res_norm, self.model.output_attn_res_proj)
        else:
            for l in self.model.layers:
                x = l(x)
        return self.lm_head(self.model.norm(x))


E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=torch.float64)


def mxfp4_pack(w, group=32):
    """w [out, in] -> packed U8 [out, in/2] (low nibble = even element), scale U8 [out, in/32] (value 2^(byte-127))."""
    o, i = w.shape
    g = w.double().view(o, i // group, group)
    e = torch.floor(torch.log2(g.abs().amax(-1).clamp(min=1e-30))) - 2
    e = e.clamp(-127, 127)
    q = (g * (2.0**-e).unsqueeze(-1)).unsqueeze(-1)
    code = (q - E2M1).abs().argmin(-1).view(o, i)
    return (code[:, 0::2] | (code[:, 1::2] << 4)).to(torch.uint8), (e + 127).to(torch.uint8)


def mxfp4_unpack(packed, scale, group=32):
    o, h = packed.shape
    p = packed.long()
    code = torch.stack([p & 15, p >> 4], -1).view(o, h * 2)
    return (E2M1[code].view(o, -1, group) * (2.0 ** (scale.double() - 127)).unsqueeze(-1)).view(o, h * 2)


def save_safetensors(path, tensors, meta=None):
    """tensors: name -> torch tensor (float32, bfloat16, uint8). Written in name order, 8-byte aligned header."""
    dt = {torch.float32: "F32", torch.bfloat16: "BF16", torch.uint8: "U8", torch.float16: "F16"}
    head, off, blobs = {"__metadata__": meta or {"format": "pt"}}, 0, []
    for n in sorted(tensors):
        t = tensors[n].detach().contiguous().cpu()
        raw = (t.view(torch.int16) if t.dtype in (torch.bfloat16, torch.float16) else t).numpy().tobytes()
        head[n] = {"dtype": dt[t.dtype], "shape": list(t.shape), "data_offsets": [off, off + len(raw)]}
        off += len(raw)
        blobs.append(raw)
    h = json.dumps(head, separators=(",", ":")).encode()
    h += b" " * (-len(h) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(h)))
        f.write(h)
        for b in blobs:
            f.write(b)


def load_safetensors(path):
    import numpy as np

    dt = {"F32": torch.float32, "BF16": torch.bfloat16, "U8": torch.uint8, "F16": torch.float16}
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    head = json.loads(raw[8 : 8 + n])
    out = {}
    for k, e in head.items():
        if k == "__metadata__":
            continue
        a, b = e["data_offsets"]
        t = torch.frombuffer(bytearray(raw[8 + n + a : 8 + n + b]), dtype=dt[e["dtype"]])
        out[k] = t.view(e["shape"])
    return out


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    q, k, v = (torch.randn(2, 37, 3, 8) for _ in range(3))
    k = F.normalize(k, dim=-1)
    g = -torch.rand(2, 37, 3, 8) * 3
    b = torch.rand(2, 37, 3)
    o1, s1 = kda_recurrent(q, k, v, g, b)
    o2, s2 = kda_chunked(q, k, v, g, b)
    torch.set_default_dtype(torch.float64)
    o3, s3 = kda_train(q, k, v, g, b)
    print("train vs recurrent", (o1 - o3).abs().max().item())
    print("chunked vs recurrent", (o1 - o2).abs().max().item(), (s1 - s2).abs().max().item())
