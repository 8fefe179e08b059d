"""python3 source/evaluate.py [N] [FILE]: greedy accuracy per skill over N fresh dialogues each (default 8, model.safetensors)."""
import json, random, sys, collections

import torch, gen, bpe
from kimi_ref import KimiLinear, KDA, load_safetensors

n = int(sys.argv[1]) if len(sys.argv) > 1 else 8
weights = sys.argv[2] if len(sys.argv) > 2 else "model.safetensors"
c = json.load(open("config.json"))
T = bpe.Tokenizer(bpe.load("tiktoken.model"), bpe.specials(2048))
m = KimiLinear(c)
m.load_state_dict({k: v.float() for k, v in load_safetensors(weights).items()})
m.eval()
for x in m.modules():
    if isinstance(x, KDA):
        x.chunked = True
end = T.special["<|im_end|>"]
r = random.Random(99)
hit = collections.Counter()
tot = collections.Counter()
bad = {}


def answer(text, limit=160):
    ids = T.encode(text)
    k = len(ids)
    with torch.no_grad():
        while len(ids) - k < limit:
            t = m(torch.tensor([ids]))[0, -1].argmax().item()
            ids.append(t)
            if t == end:
                break
    return T.decode(ids[k:])


if __name__ == "__main__":
    for skill, _ in gen.SKILLS:
        if skill.__name__ == "story":
            continue
        for _ in range(n):
            parts = gen.render(skill(r))
            prefix = ""
            last = max(i for i, (_, on) in enumerate(parts) if on)
            prefix = "".join(t for t, _ in parts[:last])
            want = parts[last][0]
            got = answer(prefix, len(T.encode(want)) + 3)
            tot[skill.__name__] += 1
            hit[skill.__name__] += got == want
            if got != want:
                bad[skill.__name__] = (want[:70], got[:70])
    for k in tot:
        print(f"{k:14s} {hit[k]}/{tot[k]}", bad.get(k, ""))
