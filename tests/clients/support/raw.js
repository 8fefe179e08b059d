// One TCP connection as bytes: what no client library sends, and all that comes back.
import {once} from 'node:events';
import net from 'node:net';

export class Raw {
  static async connect(url) {
    const {hostname, port} = new URL(url);
    const raw = new Raw();
    raw.bytes = Buffer.alloc(0);
    raw.closed = false;
    raw.wake = () => {};
    raw.socket = net.connect({host: hostname, port: Number(port), noDelay: true});
    raw.socket.on('data', (bytes) => {
      raw.bytes = Buffer.concat([raw.bytes, bytes]);
      raw.wake();
    });
    raw.socket.on('close', () => {
      raw.closed = true;
      raw.wake();
    });
    raw.socket.on('error', () => {}); // a reset is seen as closed
    await once(raw.socket, 'connect');
    return raw;
  }

  send(bytes) {
    this.socket.write(bytes);
    return this;
  }

  // Whether `holds` came true before the connection closed.
  async until(holds) {
    while (!holds(this.bytes)) {
      if (this.closed) return false;
      await new Promise((resolve) => {
        this.wake = resolve;
      });
    }
    return true;
  }

  untilText(text) {
    return this.until((bytes) => bytes.includes(text));
  }

  async toEnd() {
    await this.until(() => this.closed);
    return this.bytes;
  }

  async #take(end) {
    if (!(await this.until((bytes) => end(bytes) >= 0))) throw new Error(`cut short: ${this.bytes}`);
    const size = end(this.bytes);
    const taken = this.bytes.subarray(0, size);
    this.bytes = this.bytes.subarray(size);
    return taken;
  }

  #line() {
    return this.#take((bytes) => (bytes.includes('\r\n') ? bytes.indexOf('\r\n') + 2 : -1));
  }

  #exactly(size) {
    return this.#take((bytes) => (bytes.length >= size ? size : -1));
  }

  // The next response: status, lower-case headers, the body, and its chunks where it has some.
  async response() {
    const head = String(
      await this.#take((bytes) => (bytes.includes('\r\n\r\n') ? bytes.indexOf('\r\n\r\n') + 4 : -1)),
    );
    const status = Number(head.split(' ')[1]);
    const headers = Object.fromEntries(
      [...head.matchAll(/^([^:\r\n]+): ?([^\r\n]*)/gm)].map(([, name, value]) => [name.toLowerCase(), value]),
    );
    const chunks = [];
    if (headers['transfer-encoding'] !== 'chunked') {
      chunks.push(await this.#exactly(Number(headers['content-length'] ?? 0)));
      return {status, headers, chunks, body: chunks[0]};
    }
    for (;;) {
      const size = parseInt(String(await this.#line()), 16);
      const chunk = await this.#exactly(size);
      await this.#line();
      if (size === 0) return {status, headers, chunks, body: Buffer.concat(chunks)};
      chunks.push(chunk);
    }
  }

  drop() {
    this.socket.destroy();
  }

  reset() {
    this.socket.resetAndDestroy();
  }
}

export function request(body, {route = '/v1/completions', headers = ''} = {}) {
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body));
  const head =
    `POST ${route} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n` +
    `content-length: ${bytes.length}\r\n${headers}\r\n`;
  return Buffer.concat([Buffer.from(head), bytes]);
}

// Waits for a condition of the running program that nothing announces.
export async function eventually(what, holds, limitMs = 20_000) {
  const end = Date.now() + limitMs;
  for (;;) {
    if (await holds()) return;
    if (Date.now() > end) throw new Error(`not within ${limitMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
