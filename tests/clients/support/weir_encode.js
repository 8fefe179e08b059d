// The weir_encode program: Weir's tokenizer behind pipes.
import {spawn} from 'node:child_process';
import {mkdtempSync, rmSync, symlinkSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import path from 'node:path';
import {createInterface} from 'node:readline';

export class WeirEncode {
  #child;
  #lines;
  #made;

  constructor(dir, made = false) {
    this.#child = spawn(process.env.WEIR_ENCODE_BIN, [dir], {stdio: ['pipe', 'pipe', 'inherit']});
    this.#lines = createInterface({input: this.#child.stdout})[Symbol.asyncIterator]();
    this.#made = made ? dir : null;
  }

  // A tokenizer of these tokens, with the reserved special tokens only.
  static ofTokens(base64Tokens) {
    const dir = mkdtempSync(path.join(tmpdir(), 'weir-encode-'));
    writeFileSync(
      path.join(dir, 'tiktoken.model'),
      base64Tokens.map((token, rank) => `${token} ${rank}\n`).join(''),
    );
    writeFileSync(path.join(dir, 'tokenizer_config.json'), '{"added_tokens_decoder":{}}');
    return new WeirEncode(dir, true);
  }

  // The tokenizer that this file alone makes, known by its name.
  static ofFile(file) {
    const dir = mkdtempSync(path.join(tmpdir(), 'weir-encode-'));
    symlinkSync(file, path.join(dir, path.basename(file)));
    return new WeirEncode(dir, true);
  }

  async #ask(mode, text) {
    const bytes = Buffer.from(text);
    this.#child.stdin.write(`${mode} ${bytes.length}\n`);
    this.#child.stdin.write(bytes);
    const {value, done} = await this.#lines.next();
    if (done) throw new Error('weir_encode ended');
    return value.trim() === '' ? [] : value.trim().split(' ').map(Number);
  }
  encode(text) {
    return this.#ask('p', text);
  }
  encodeWithSpecials(text) {
    return this.#ask('s', text);
  }
  // The prompt of a chat request's `messages` and `tools`.
  render({messages, tools}) {
    return this.#ask('c', `${JSON.stringify(messages)}\n${tools ? JSON.stringify(tools) : ''}`);
  }
  async microseconds(text) {
    return (await this.#ask('t', text))[0];
  }

  close() {
    this.#child.stdin.end();
    if (this.#made) rmSync(this.#made, {recursive: true});
  }
}
