// A running weir with its own configuration on free ports, and the raw HTTP that tests look at.
import {spawn} from 'node:child_process';
import {createHmac} from 'node:crypto';
import {mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import path from 'node:path';
import {createInterface} from 'node:readline';

export const MODEL = 'weir-tiny';
const START_MS = 60_000;
const STOP_MS = 20_000;

const modelDir = path.join(import.meta.dirname, '../../../configs/models/weir-tiny');

export function defaults() {
  return {
    listen: '127.0.0.1:0',
    admin: {listen: '127.0.0.1:0'},
    auth: {loopback_open: true},
    log: {access: false},
    targets: [{name: 'embedded', engine: {model_dir: modelDir}}],
    models: [{name: MODEL, targets: ['embedded']}],
  };
}

// The auth section for one key, with its secret file in `dir`.
export function authFor(key, dir) {
  const secret = 'a secret of thirty-two bytes or so';
  const file = path.join(dir, 'secret');
  writeFileSync(file, secret, {mode: 0o600});
  return {
    secret_file: file,
    keys: [{name: 'tests', tenant: 'tests', digest: createHmac('sha256', secret).update(key).digest('hex')}],
  };
}

export class Weir {
  static async start(change = (config) => config) {
    const weir = new Weir();
    weir.dir = mkdtempSync(path.join(tmpdir(), 'weir-clients-'));
    weir.file = path.join(weir.dir, 'weir.yaml');
    weir.configure(change(defaults(), weir.dir));
    return weir.#run('serve', '--config', weir.file);
  }

  // `weir engine` on free ports; `events` and `replay` where it publishes.
  static async engine(...args) {
    const weir = new Weir();
    weir.dir = mkdtempSync(path.join(tmpdir(), 'weir-clients-'));
    const listen = args.includes('--listen') ? [] : ['--listen', '127.0.0.1:0'];
    return weir.#run('engine', '--model', modelDir, ...listen, ...args);
  }

  async #run(...args) {
    this.child = spawn(process.env.WEIR_BIN, args, {stdio: ['ignore', 'pipe', 'pipe']});
    this.log = '';
    this.out = '';
    this.child.stdout.on('data', (bytes) => {
      this.out += bytes;
    });
    this.child.stderr.on('data', (bytes) => {
      this.log += bytes;
    });
    this.ended = new Promise((resolve) => this.child.on('close', (code, signal) => resolve({code, signal})));
    try {
      await this.#ready();
    } catch (error) {
      this.child.kill('SIGKILL');
      throw error;
    }
    return this;
  }

  configure(config) {
    this.config = config;
    writeFileSync(this.file, JSON.stringify(config)); // JSON is YAML
  }

  async #ready() {
    const lines = createInterface({input: this.child.stdout});
    const timer = setTimeout(() => lines.close(), START_MS);
    for await (const line of lines) {
      this.url ??= /^listening on (\S+)/.exec(line)?.[1];
      this.admin ??= /^admin on (\S+)/.exec(line)?.[1];
      const events = /^KV events at (\S+), replayed at (\S+)$/.exec(line);
      if (events) [, this.events, this.replay] = events;
      if (/^Try it:/.test(line)) break;
    }
    clearTimeout(timer);
    if (!this.url || !this.admin) throw new Error(`weir did not start: ${this.log}`);
    this.child.stdout.resume();
    const ready = await fetch(`${this.admin}/readyz`);
    if (ready.status !== 200) throw new Error(`not ready: ${ready.status} ${await ready.text()}`);
  }

  get base() {
    return `${this.url}/v1`;
  }

  // Ends it as an operator would; what a crash or a sanitizer reports fails the test.
  async stop(expected = 0) {
    this.child.kill('SIGTERM');
    const timer = setTimeout(() => this.child.kill('SIGKILL'), STOP_MS);
    const {code, signal} = await this.ended;
    clearTimeout(timer);
    rmSync(this.dir, {recursive: true});
    if (code !== expected) throw new Error(`weir ended with ${signal ?? code}: ${this.log}`);
  }

  post(route, body, headers = {}) {
    return fetch(`${this.url}${route}`, {
      method: 'POST',
      headers: {'content-type': 'application/json', ...headers},
      body: typeof body === 'string' ? body : JSON.stringify(body),
    });
  }

  // The chat answer to one user message, as JSON.
  async chat(fields) {
    const response = await this.post('/v1/chat/completions', {model: MODEL, ...fields});
    const body = await response.json();
    if (response.status !== 200) throw new Error(`${response.status} ${JSON.stringify(body)}`);
    return body;
  }

  async metric(pattern) {
    const text = await (await fetch(`${this.admin}/metrics`)).text();
    return text
      .split('\n')
      .filter((line) => !line.startsWith('#') && pattern.test(line))
      .map((line) => Number(line.split(' ').pop()));
  }
}

// The events of a stream, each checked to be exactly `data: ...` and a blank line; the last must be [DONE].
export async function readEvents(response) {
  const text = await response.text();
  if (!text.endsWith('data: [DONE]\n\n'))
    throw new Error(`no [DONE] at the end: ${JSON.stringify(text.slice(-200))}`);
  return text
    .slice(0, -2)
    .split('\n\n')
    .slice(0, -1)
    .map((event) => {
      if (!event.startsWith('data: ') || event.includes('\n'))
        throw new Error(`odd event: ${JSON.stringify(event)}`);
      return JSON.parse(event.slice('data: '.length));
    });
}

export const user = (content) => ({role: 'user', content});

// The tools that weir-tiny was trained with, in the key order of its training data.
export const WEATHER = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'Get the weather of a city',
    parameters: {type: 'object', properties: {city: {type: 'string'}}, required: ['city']},
  },
};
export const ADD = {
  type: 'function',
  function: {
    name: 'add',
    description: 'Add two numbers',
    parameters: {
      type: 'object',
      properties: {a: {type: 'integer'}, b: {type: 'integer'}},
      required: ['a', 'b'],
    },
  },
};
