"""Byte-level BPE in the tiktoken rank-file format, with the pre-tokenizer pattern that Kimi's tokenizer publishes."""
import base64, collections, json, sys
import regex

PATTERN = "|".join(
    [
        r"[\p{Han}]+",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)
SPLIT = regex.compile(PATTERN, regex.V1)


def train(texts, vocab):
    words = collections.Counter(w for t in texts for w in SPLIT.findall(t))
    seqs = {w: [bytes([b]) for b in w.encode()] for w in words}
    tokens = [bytes([i]) for i in range(256)]
    while len(tokens) < vocab:
        pairs = collections.Counter()
        for w, n in words.items():
            s = seqs[w]
            for a, b in zip(s, s[1:]):
                pairs[a, b] += n
        if not pairs:
            break
        (a, b), n = max(pairs.items(), key=lambda x: (x[1], x[0]))
        if n < 2:
            break
        tokens.append(a + b)
        for w, s in seqs.items():
            if a in s:
                i, out = 0, []
                while i < len(s):
                    if i + 1 < len(s) and s[i] == a and s[i + 1] == b:
                        out.append(a + b)
                        i += 2
                    else:
                        out.append(s[i])
                        i += 1
                seqs[w] = out
    return tokens


class Tokenizer:
    def __init__(self, tokens, specials):
        self.rank = {t: i for i, t in enumerate(tokens)}
        self.tokens = tokens
        self.special = specials
        self.cut = regex.compile("|".join(regex.escape(s) for s in sorted(specials, key=len, reverse=True)))
        self.memo = {}

    def word(self, w):
        if w in self.memo:
            return self.memo[w]
        s = [bytes([b]) for b in w.encode()]
        while len(s) > 1:
            r, i = min((self.rank.get(s[i] + s[i + 1], 1 << 30), i) for i in range(len(s) - 1))
            if r == 1 << 30:
                break
            s[i : i + 2] = [s[i] + s[i + 1]]
        self.memo[w] = out = [self.rank[x] for x in s]
        return out

    def encode(self, text):
        out, at = [], 0
        for m in self.cut.finditer(text):
            for w in SPLIT.findall(text[at : m.start()]):
                out += self.word(w)
            out.append(self.special[m.group()])
            at = m.end()
        for w in SPLIT.findall(text[at:]):
            out += self.word(w)
        return out

    def decode(self, ids):
        back = {v: k.encode() for k, v in self.special.items()}
        return b"".join(self.tokens[i] if i < len(self.tokens) else back.get(i, b"?") for i in ids).decode(
            errors="replace"
        )


NAMES = [
    "[BOS]",
    "[EOS]",
    "<|im_end|>",
    "<|im_user|>",
    "<|im_assistant|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "[EOT]",
    "<|im_system|>",
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
    "<|im_middle|>",
    "[UNK]",
    "[PAD]",
]
OFFSET = [
    0,
    1,
    2,
    3,
    4,
    6,
    7,
    9,
    10,
    11,
    12,
    13,
    14,
    15,
    17,
    254,
    255,
]  # offsets of the real Kimi tokenizer's specials from its base


def specials(base):
    return {n: base + o for n, o in zip(NAMES, OFFSET)}


def save(path, tokens):
    with open(path, "wb") as f:
        for i, t in enumerate(tokens):
            f.write(base64.b64encode(t) + b" " + str(i).encode() + b"\n")


def load(path):
    return [base64.b64decode(l.split()[0]) for l in open(path, "rb")]
