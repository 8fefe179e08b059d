// A running `weir-loadtest mock` or `chaos` on a free port.
import {spawn} from 'node:child_process';
import {createInterface} from 'node:readline';

const START_MS = 20_000;
const STOP_MS = 10_000;

export class Tool {
  static async start(command, ...args) {
    const tool = new Tool();
    const listen = args.includes('--listen') ? [] : ['--listen', '127.0.0.1:0'];
    tool.child = spawn(process.env.WEIR_LOADTEST_BIN, [command, ...listen, ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    tool.log = '';
    tool.child.stderr.on('data', (bytes) => {
      tool.log += bytes;
    });
    tool.ended = new Promise((resolve) => tool.child.on('close', (code, signal) => resolve({code, signal})));
    const lines = createInterface({input: tool.child.stdout});
    const timer = setTimeout(() => lines.close(), START_MS);
    let missing = 1 + args.filter((arg) => arg === '--kv-events' || arg === '--kv-replay').length;
    for await (const line of lines) {
      const [, what, at] = /^(listening|kv events|kv replay) on (\S+)$/.exec(line) ?? [];
      if (what === 'listening') tool.url = at.replace(/^(?!http:)/, 'http://');
      else if (what) tool[what === 'kv events' ? 'events' : 'replay'] = at;
      if (!what || --missing === 0) break;
    }
    clearTimeout(timer);
    if (missing > 0) {
      tool.child.kill('SIGKILL');
      throw new Error(`${command} did not start: ${tool.log}`);
    }
    tool.child.stdout.resume();
    return tool;
  }

  get authority() {
    return new URL(this.url).host;
  }

  async stop() {
    this.child.kill('SIGTERM');
    const timer = setTimeout(() => this.child.kill('SIGKILL'), STOP_MS);
    const {code, signal} = await this.ended;
    clearTimeout(timer);
    if (code !== 0) throw new Error(`ended with ${signal ?? code}: ${this.log}`);
  }

  post(route, body, headers = {}) {
    return fetch(`${this.url}${route}`, {
      method: 'POST',
      headers: {'content-type': 'application/json', ...headers},
      body: JSON.stringify(body),
    });
  }

  async metric(name) {
    const text = await (await fetch(`${this.url}/metrics`)).text();
    const line = text.split('\n').find((row) => row.startsWith(name) && /[ {]/.test(row[name.length]));
    return Number(line?.split(' ').pop());
  }

  // Waits until a metric has a value; the test's own time limit is the bound.
  async untilMetric(name, value) {
    while ((await this.metric(name)) !== value) await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

// What `weir-loadtest run` says of `seconds` at `rate` requests a second.
export async function loadOf(weir, model, rate, seconds, more = []) {
  const args = ['run', '--url', weir.url, '--model', model, '--rate', rate, '--requests', rate * seconds, '--json'];
  const child = spawn(process.env.WEIR_LOADTEST_BIN, [...args, ...more], {stdio: ['ignore', 'pipe', 'inherit']});
  let text = '';
  child.stdout.on('data', (bytes) => (text += bytes));
  await new Promise((resolve) => child.on('close', resolve));
  return JSON.parse(text);
}
