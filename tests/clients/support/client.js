// A client connection to weir that sees what no library shows: which bytes of a reply came when, and
// whether its body ended by its framing or by a cut.
import {once} from 'node:events';
import net from 'node:net';

export class Reply {
  parts = []; // {at, bytes}: the body without its framing, as it came
  ended = null; // 'complete', or 'aborted' where the connection closed first
  #wake = [];

  constructor() {
    this.end = this.until(() => false).then(() => this.ended);
  }

  get body() {
    return Buffer.concat(this.parts.map((part) => part.bytes));
  }

  get text() {
    return String(this.body);
  }

  get json() {
    return JSON.parse(this.text);
  }

  // Waits for the condition; false where the reply ended without it.
  async until(holds) {
    while (!holds(this)) {
      if (this.ended) return false;
      await new Promise((resolve) => this.#wake.push(resolve));
    }
    return true;
  }

  untilText(text) {
    return this.until(() => this.body.includes(text));
  }

  signal() {
    for (const wake of this.#wake.splice(0)) wake();
  }

  finish(how) {
    this.ended ??= how;
    this.signal();
  }
}

// Takes a reply apart as its bytes come.
class Parser {
  #buffer = Buffer.alloc(0);
  #step = this.#head;
  #left = 0;

  constructor(reply) {
    this.reply = reply;
  }

  // The bytes behind the end of the reply, else null.
  take(bytes) {
    this.#buffer = this.#buffer.length === 0 ? bytes : Buffer.concat([this.#buffer, bytes]);
    while (this.#step && this.#step());
    this.reply.signal();
    return this.#step ? null : this.#buffer;
  }

  #line() {
    const end = this.#buffer.indexOf('\r\n');
    if (end < 0) return null;
    const line = this.#buffer.toString('latin1', 0, end);
    this.#buffer = this.#buffer.subarray(end + 2);
    return line;
  }

  #head() {
    const end = this.#buffer.indexOf('\r\n\r\n');
    if (end < 0) return false;
    const lines = this.#buffer.toString('latin1', 0, end).split('\r\n');
    this.#buffer = this.#buffer.subarray(end + 4);
    const status = Number(lines[0].split(' ')[1]);
    if (status >= 100 && status < 200) return true;
    this.reply.fields = lines.slice(1).map((line) => /^([^:]+): ?(.*)$/.exec(line).slice(1));
    this.reply.headers = Object.fromEntries(
      this.reply.fields.map(([name, value]) => [name.toLowerCase(), value]),
    );
    this.reply.status = status;
    if (this.reply.headers['transfer-encoding'] === 'chunked') {
      this.#step = this.#size;
    } else {
      this.#left = Number(this.reply.headers['content-length'] ?? 0);
      this.#step = this.#length;
    }
    return true;
  }

  #end() {
    this.#step = null;
    this.reply.finish('complete');
    return false;
  }

  #data() {
    const bytes = this.#buffer.subarray(0, this.#left);
    if (bytes.length > 0) this.reply.parts.push({at: performance.now(), bytes});
    this.#buffer = this.#buffer.subarray(bytes.length);
    this.#left -= bytes.length;
    return this.#left === 0;
  }

  #length() {
    return this.#data() && this.#end();
  }

  #size() {
    const line = this.#line();
    if (line === null) return false;
    this.#left = parseInt(line, 16);
    this.#step = this.#left === 0 ? this.#last : this.#chunk;
    return true;
  }

  #chunk() {
    if (this.#left > 0 && !this.#data()) return false;
    if (this.#line() === null) return false;
    this.#step = this.#size;
    return true;
  }

  #last() {
    return this.#line() !== null && this.#end();
  }
}

export class Client {
  #parser = null;
  stray = []; // bytes that belong to no reply

  static async connect(url) {
    const {hostname, port} = new URL(url);
    const client = new Client();
    client.socket = net.connect({host: hostname, port: Number(port), noDelay: true});
    client.open = true;
    client.socket.on('data', (bytes) => client.#take(bytes));
    client.socket.on('error', () => {}); // a reset is seen as closed
    client.closed = once(client.socket, 'close').then(() => {
      client.open = false;
      client.#parser?.reply.finish('aborted');
    });
    await once(client.socket, 'connect');
    return client;
  }

  #take(bytes) {
    const rest = this.#parser ? this.#parser.take(bytes) : bytes;
    if (rest === null) return;
    this.#parser = null;
    if (rest.length > 0) this.stray.push(rest);
  }

  // Expects a reply to what the caller writes by itself.
  expect() {
    const reply = new Reply();
    reply.client = this;
    this.#parser = new Parser(reply);
    if (!this.open) reply.finish('aborted');
    return reply;
  }

  post(body, options) {
    const reply = this.expect();
    this.socket.write(requestBytes(body, options));
    return reply;
  }

  leave() {
    this.leftAt = performance.now();
    this.socket.destroy();
  }
}

export const CHAT = '/v1/chat/completions';
export const COMPLETIONS = '/v1/completions';

export function requestBytes(body, {route = CHAT, headers = {}} = {}) {
  const bytes = Buffer.isBuffer(body)
    ? body
    : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
  const fields = {
    host: 'localhost',
    'content-type': 'application/json',
    'content-length': bytes.length,
    ...headers,
  };
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.concat([Buffer.from(`POST ${route} HTTP/1.1\r\n${lines.join('')}\r\n`), bytes]);
}

// One request on a connection of its own, started: its reply comes.
export async function start(weir, body, options) {
  return (await Client.connect(weir.url)).post(body, options);
}

const ASK_MS = 30_000; // a reply that takes longer hangs

// One request on a connection of its own, to its end.
export async function ask(weir, body, options) {
  const reply = await start(weir, body, options);
  let timer;
  const late = new Promise((resolve, reject) => {
    timer = setTimeout(
      () => reject(new Error(`no end: ${reply.status} ${reply.text.slice(0, 300)}`)),
      ASK_MS,
    );
  });
  await Promise.race([reply.end, late]).finally(() => clearTimeout(timer));
  reply.client.leave();
  return reply;
}

const EVENT = /[^]*?(?:\r\n|\r(?!\n)|\n)(?:\r\n|\r|\n)/g;

// Whole events, each with its blank line, and what is left behind the last one.
export function splitEvents(bytes) {
  const text = bytes.toString('latin1');
  const events = (text.match(EVENT) ?? []).map((part) => Buffer.from(part, 'latin1'));
  return {events, rest: bytes.subarray(events.reduce((sum, part) => sum + part.length, 0))};
}
