// Text that is hard on tokenizers, the same for the same seed.
import {readdirSync, readFileSync} from 'node:fs';
import path from 'node:path';

// mulberry32
export function random(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t ^= t + Math.imul(t ^ (t >>> 7), 61 | t);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  return {below: (n) => Math.floor(next() * n), pick: (list) => list[Math.floor(next() * list.length)]};
}

function* files(dir, extensions) {
  for (const entry of readdirSync(dir, {withFileTypes: true}).sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const full = path.join(dir, entry.name);
    if (entry.isDirectory()) yield* files(full, extensions);
    else if (extensions.some((extension) => entry.name.endsWith(extension))) yield full;
  }
}

// About `chars` characters of documentation or code out of the installed packages.
export function packageText(dirs, extensions, chars) {
  let text = '';
  for (const dir of dirs) {
    for (const file of files(dir, extensions)) {
      text += readFileSync(file, 'utf8');
      if (text.length >= chars) return text;
    }
  }
  return text;
}

const scalar = (r) => {
  for (;;) {
    const c = r.pick([0x250, 0x800, 0x3000, 0x10000, 0x20000, 0x110000]);
    const codePoint = r.below(c);
    if (codePoint < 0xd800 || codePoint > 0xdfff) return String.fromCodePoint(codePoint);
  }
};
const between = (r, first, last) => String.fromCodePoint(first + r.below(last - first + 1));

export function cjk(r, chars) {
  const out = [];
  while (out.length < chars) {
    const kind = r.below(20);
    if (kind < 12) out.push(between(r, 0x4e00, 0x9fff));
    else if (kind < 14) out.push(between(r, 0x3041, 0x3096));
    else if (kind < 15) out.push(between(r, 0x30a1, 0x30fa));
    else if (kind < 17) out.push(between(r, 0xac00, 0xd7a3));
    else if (kind < 18) out.push(r.pick([...'，。、「」！々〇〆ー\n']));
    else if (kind < 19) out.push(between(r, 0x20000, 0x2a6df));
    else
      out.push(r.pick([...' 年⼀⺀㈠㊥\u302a\u{16ff0}', 'API', '2026', 'ｗｗｗ']));
  }
  return out.join('');
}

export function emoji(r, chars) {
  const out = [];
  while (out.length < chars) {
    out.push(between(r, 0x1f300, 0x1faff));
    if (r.below(3) === 0)
      out.push(r.pick(['\u200d', '\ufe0f', '\u{1f3fd}', '\u20e3', ' ', '!', 'a', '\u{1f1e9}\u{1f1ea}']));
  }
  return out.join('');
}

// Words, marks, apostrophes, white space of every kind and arbitrary characters in random order.
export function soup(r, chars) {
  const atoms = [
    "'s",
    "'S",
    "'ſ",
    "'T",
    "'re",
    "'RE",
    "'vE",
    "'ll",
    "'lL",
    "'d",
    "'m",
    "'x",
    "'",
    '’s',
    'a',
    'Z',
    'ab',
    'AB',
    'aB',
    'Word',
    'HTTPServer',
    'ǅ',
    'ǈ',
    'ª',
    'ʰ',
    'ー',
    '\u0301',
    '\u0903',
    'é',
    'ß',
    'İ',
    'ſ',
    'K',
    '1',
    '22',
    '333',
    '4444',
    '٣',
    'Ⅷ',
    '½',
    '²',
    '〇',
    '中',
    '文字',
    '々',
    '⺀',
    'א',
    'ب',
    'क्षि',
    'ไทย',
    ' ',
    '  ',
    '   ',
    '\t',
    '\n',
    '\r',
    '\r\n',
    '\n\n',
    ' \n',
    '\u000b',
    '\f',
    '\u001c',
    '\u001f',
    '\u0085',
    '\u00a0',
    '\u180e',
    '\u200b',
    '\u2003',
    '\u2028',
    '\u202f',
    '\u3000',
    '\ufeff',
    '!',
    '?!',
    '...',
    '//',
    '/* ',
    '"',
    '_',
    '-',
    '<|',
    '|>',
    '<|im_end|>',
    '\u0000',
    '\u007f',
    '\u{e0101}',
    '\u{10ffff}',
    '\ufffd',
    '\uffff',
  ];
  const out = [];
  for (let length = 0; length < chars;) {
    const atom = r.below(8) === 0 ? scalar(r) : r.pick(atoms);
    out.push(atom);
    length += atom.length;
  }
  return out.join('');
}

// Long runs of few symbols: what merging, backtracking and the cuts before them can fail on.
export function runs(r, chars) {
  const units = [
    'a',
    'A',
    'aA',
    'Aa',
    'ab',
    ' ',
    '\n',
    ' \n',
    '\t',
    '1',
    '.',
    '=',
    '中',
    '\u0301',
    'ª',
    'ªA',
    "'s",
    '\u{1f600}',
    'é',
    '\u001c',
    'abcabd',
    'the ',
    'x\u0301',
    '\r\n',
    '\u3000',
  ];
  const out = [];
  for (let length = 0; length < chars;) {
    const run = r.pick(units).repeat(1 + r.below(r.pick([8, 70, 400, 30000])));
    out.push(run);
    length += run.length;
  }
  return out.join('');
}

// Any characters of Unicode in any order.
export const scalars = (r, chars) => Array.from({length: chars}, () => scalar(r)).join('');
