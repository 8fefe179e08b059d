import random, gen, bpe

r = random.Random(7)
texts = [x for _ in range(20000) for x, _ in gen.render(gen.dialogue(r))]
sp = bpe.specials(2048)
cut = bpe.Tokenizer([bytes([i]) for i in range(256)], sp).cut
plain = [p for t in texts for p in cut.split(t)]
toks = bpe.train(plain, 2048)
print(len(toks))
bpe.save("tiktoken.model", toks)
T = bpe.Tokenizer(toks, bpe.specials(len(toks)))
ls = [len(T.encode("".join(x for x, _ in gen.render(gen.dialogue(r))))) for _ in range(2000)]
ls.sort()
print("len p50/p90/p99/max", ls[1000], ls[1800], ls[1980], ls[-1])
s = "Hello, world! The code of Ana is 123.\n\n  x  "
assert T.decode(T.encode(s)) == s
print(T.encode(s))
