// The published Kimi tokenizer, rebuilt from its parts around the tiktoken library: pattern, the cuts before
// it, specials.
import {readFileSync} from 'node:fs';
import path from 'node:path';

import {Tiktoken} from 'tiktoken';

const OPENER = String.raw`[^\r\n\p{L}\p{N}]?`;
const UPPER = String.raw`[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]`;
const LOWER = String.raw`[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]`;
const CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?";

export const PATTERN = [
  String.raw`[\p{Han}]+`,
  `${OPENER}${UPPER}*${LOWER}+${CONTRACTION}`,
  `${OPENER}${UPPER}+${LOWER}*${CONTRACTION}`,
  String.raw`\p{N}{1,3}`,
  String.raw` ?[^\s\p{L}\p{N}]+[\r\n]*`,
  String.raw`\s*[\r\n]+`,
  String.raw`\s+(?!\S)`,
  String.raw`\s+`,
].join('|');

const CHUNK_CHARS = 400_000;
const RUN_CHARS = 25_000;
const PYTHON_SPACE = /^[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]$/;

// A list of base64 tokens in rank order, from a tiktoken.model or any .tiktoken file.
export function readRanks(file) {
  return readFileSync(file, 'latin1')
    .trimEnd()
    .split('\n')
    .map((line) => line.split(' ')[0]);
}

export function readSpecials(dir) {
  const {added_tokens_decoder: added} = JSON.parse(readFileSync(path.join(dir, 'tokenizer_config.json')));
  return Object.fromEntries(Object.entries(added).map(([id, {content}]) => [content, Number(id)]));
}

export function* published_parts(text) {
  let start = 0,
    chunk = 0,
    run = 0,
    space = false,
    at = 0;
  for (const char of text) {
    const isSpace = PYTHON_SPACE.test(char);
    run = isSpace === space ? run + 1 : 1;
    space = isSpace;
    if (chunk === CHUNK_CHARS || run > RUN_CHARS) {
      yield text.slice(start, at);
      start = at;
      run = 1;
      if (chunk === CHUNK_CHARS) chunk = 0;
    }
    ++chunk;
    at += char.length;
  }
  if (at > start) yield text.slice(start, at);
}

export class KimiOracle {
  constructor(base64Tokens, specials) {
    this.tiktoken = new Tiktoken(`! 0 ${base64Tokens.join(' ')}`, specials, PATTERN);
  }
  encode(text) {
    return this.#parts(text, (part) => this.tiktoken.encode_ordinary(part));
  }
  encodeWithSpecials(text) {
    return this.#parts(text, (part) => this.tiktoken.encode(part, 'all', []));
  }
  #parts(text, encode) {
    const ids = [];
    for (const part of published_parts(text)) for (const id of encode(part)) ids.push(id);
    return ids;
  }
  free() {
    this.tiktoken.free();
  }
}
