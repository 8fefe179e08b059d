// bench_texts.js DIR: the texts of the tokenizer's benchmark, one file each.
import {writeFileSync} from 'node:fs';
import path from 'node:path';

import {cjk, emoji, packageText, random, soup} from './corpus.js';

const modules = path.join(import.meta.dirname, '../node_modules');
const SEED = 20261131;
const texts = {
  english: packageText([modules], ['.md'], 4_000_000),
  code: packageText([path.join(modules, 'openai'), path.join(modules, 'ai')], ['.ts'], 4_000_000),
  cjk: cjk(random(SEED), 1_000_000),
  emoji: emoji(random(SEED + 1), 300_000),
  mixture: soup(random(SEED + 2), 1_000_000),
};
for (const [name, text] of Object.entries(texts)) writeFileSync(path.join(process.argv[2], `${name}.txt`), text);
