"""Train the tiny checkpoint: python3 train.py SECONDS [PEAK_LR]. Saves to out/ every 200 steps; resumes from there."""
import json, math, os, random, sys, time

import torch, torch.nn.functional as F
import gen, bpe
from kimi_ref import KimiLinear, KDA, MoE, save_safetensors

limit = float(sys.argv[1])
PEAK = float(sys.argv[2]) if len(sys.argv) > 2 else 3e-3
torch.manual_seed(1)
r = random.Random(os.path.exists("out/state.pt") and 12 or 11)
torch.set_num_threads(2)
c = json.load(open("config.json"))
T = bpe.Tokenizer(bpe.load("tiktoken.model"), bpe.specials(2048))
m = KimiLinear(c)
for n, p in m.named_parameters():
    if p.dim() == 2 and "gate.weight" not in n:
        torch.nn.init.normal_(
            p,
            0,
            0.02
            if "embed" in n or "lm_head" in n
            else p.shape[1] ** -0.5 * (0.5 if "o_proj" in n or "down" in n or "w2" in n else 1),
        )
for x in m.modules():
    if isinstance(x, KDA):
        x.chunked = "train"
print("params", sum(p.numel() for p in m.parameters()))
if os.path.exists("out/state.pt"):
    m.load_state_dict(torch.load("out/state.pt"))
    print("resumed")
dec = [p for p in m.parameters() if p.requires_grad and p.dim() == 2]
rest = [p for p in m.parameters() if p.requires_grad and p.dim() != 2]
opt = torch.optim.AdamW(
    [{"params": dec, "weight_decay": 0.05}, {"params": rest, "weight_decay": 0}], lr=3e-3, betas=(0.9, 0.95)
)


def sample():
    ids, w = [], []
    for t, on in gen.render(gen.dialogue(r)):
        e = T.encode(t)
        ids += e
        w += [1.0 if on else 0.1] * len(e)
    return ids[:320], w[:320]


def batches(tokens=4096):
    while True:
        pool = sorted((sample() for _ in range(512)), key=lambda x: len(x[0]))
        out, cur = [], []
        for s in pool:
            if cur and (len(cur) + 1) * len(s[0]) > tokens:
                out.append(cur)
                cur = []
            cur.append(s)
        r.shuffle(out)
        for b in out:
            n = max(len(x) for x, _ in b)
            n = (n + 15) // 16 * 16 + 1
            ids = torch.full((len(b), n), 2303)
            w = torch.zeros(len(b), n)
            for i, (x, y) in enumerate(b):
                ids[i, : len(x)] = torch.tensor(x)
                w[i, : len(y)] = torch.tensor(y)
            yield ids, w


def save():
    os.makedirs("out", exist_ok=True)
    torch.save(m.state_dict(), "out/state.pt")
    keep = lambda n: n.endswith("A_log") or n.endswith("dt_bias") or n.endswith("e_score_correction_bias")
    save_safetensors(
        "out/model.safetensors",
        {n: (p.float() if keep(n) else p.to(torch.bfloat16)) for n, p in m.state_dict().items()},
    )


t0, step, ema, tot = time.time(), 0, None, 0
for ids, w in batches():
    el = (time.time() - t0) / limit
    if el >= 1:
        break
    gen.EASY = min(1.0, 0.1 + 1.5 * el)
    lr = PEAK * min(1, (step + 1) / 60) * (0.5 * (1 + math.cos(math.pi * el)) * 0.98 + 0.02)
    for g in opt.param_groups:
        g["lr"] = lr
    logits = m(ids[:, :-1])
    l = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1), reduction="none")
    ww = w[:, 1:].reshape(-1)
    loss = (l * ww).sum() / ww.sum()
    opt.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0)
    opt.step()
    for x in m.modules():  # auxiliary-loss-free balancing: nudge the routing bias toward an even load
        if isinstance(x, MoE):
            x.gate.e_score_correction_bias += (
                1e-3 * torch.sign(x.load.mean() - x.load) * (1 if el < 0.8 else 0)
            )
    a = (l * (ww == 1)).sum().item() / max(1, (ww == 1).sum().item())
    ema = a if ema is None else ema * 0.95 + a * 0.05
    step += 1
    tot += ids.numel()
    if step % 20 == 0:
        print(
            f"step {step} {time.time() - t0:.0f}s tok {tot} loss {loss.item():.3f} answer {ema:.3f} lr {lr:.5f}",
            flush=True,
        )
    if step % 200 == 0:
        save()
save()
print("done", step)
