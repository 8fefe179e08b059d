// A scripted replica: a TCP or TLS server that records every request and leaves each byte of the reply, its
// timing and its end to the test. One request at a time per connection; what follows too early waits.
import {once} from 'node:events';
import net from 'node:net';
import {setTimeout as sleep} from 'node:timers/promises';
import tls from 'node:tls';

const REQUEST_LINE = /^(?:POST|GET) \/\S* HTTP\/1\.1$/;
const FIELD = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*$/;

// The request's head as text, or null where it breaks HTTP.
function parseHead(text) {
  const [line, ...rest] = text.split('\r\n');
  if (!REQUEST_LINE.test(line)) return null;
  const fields = rest.map((field) => FIELD.exec(field)?.slice(1));
  if (fields.some((field) => !field)) return null;
  const headers = {};
  for (const [name, value] of fields) {
    const key = name.toLowerCase();
    if (key in headers) return null; // nothing that weir sends comes twice
    headers[key] = value;
  }
  // A probe has no body.
  if (!/^\d+$/.test(headers['content-length'] ?? (line.startsWith('GET ') ? '0' : ''))) return null;
  return {path: line.split(' ')[1], fields, headers};
}

class Connection {
  #parts = [];
  #size = 0;
  #wake = () => {};

  constructor(upstream, socket, id) {
    Object.assign(this, {upstream, socket, id, open: true, served: 0});
    this.closed = new Promise((resolve) => {
      const close = () => {
        this.open = false;
        resolve(performance.now());
        this.#wake();
      };
      for (const name of ['end', 'error', 'close']) socket.on(name, close);
    });
    socket.setNoDelay(true);
    socket.on('data', (bytes) => {
      this.#parts.push(bytes);
      this.#size += bytes.length;
      this.#wake();
    });
  }

  // At least `size` bytes, all that came; null when the connection ended before.
  async #bytes(size) {
    while (this.#size < size) {
      if (!this.open) return null;
      await new Promise((resolve) => {
        this.#wake = resolve;
      });
    }
    const all = this.#parts.length === 1 ? this.#parts[0] : Buffer.concat(this.#parts);
    this.#parts = [all];
    return all;
  }

  #drop(size) {
    this.#parts = [this.#parts[0].subarray(size)];
    this.#size -= size;
  }

  async #read() {
    let end = -1;
    for (let size = 1; end < 0; size = this.#size + 1) {
      const bytes = await this.#bytes(size);
      if (!bytes) return null;
      end = bytes.indexOf('\r\n\r\n');
    }
    const text = this.#parts[0].toString('latin1', 0, end);
    this.#drop(end + 4);
    const head = parseHead(text);
    if (!head) {
      this.upstream.malformed.push(text);
      this.socket.destroy();
      return null;
    }
    const request = {
      ...head,
      head: text,
      connection: this.id,
      index: this.served++,
      at: performance.now(),
      socket: this.socket,
      closed: this.closed,
    };
    if (this.upstream.early(request)) return {...request, taken: true};
    const size = Number(head.headers['content-length'] ?? 0);
    const bytes = await this.#bytes(size);
    if (!bytes) return null;
    request.body = Buffer.from(bytes.subarray(0, size));
    this.#drop(size);
    return request;
  }

  async serve() {
    for (;;) {
      const request = await this.#read();
      if (!request || request.taken) return;
      await this.upstream.answer(request);
    }
  }
}

export class Upstream {
  requests = [];
  malformed = [];
  connections = [];
  // A look at a head before its body is read; true: the test answers there and then, the body stays unread.
  early = () => false;
  #waiters = [];
  #faults = [];

  // `credentials`: {key, cert} for TLS.
  static async start(handler = replies(jsonReply(chatReply())), {credentials} = {}) {
    const upstream = new Upstream();
    upstream.handler = handler;
    const accept = (socket) => upstream.#accept(socket);
    upstream.secure = Boolean(credentials);
    upstream.server = credentials ? tls.createServer(credentials, accept) : net.createServer(accept);
    upstream.server.on('tlsClientError', () => {}); // a handshake that the client refused
    upstream.server.unref(); // what a failed test leaves behind does not hold the run
    upstream.server.listen(0, '127.0.0.1');
    await once(upstream.server, 'listening');
    upstream.port = upstream.server.address().port;
    return upstream;
  }

  get base() {
    return `${this.secure ? 'https' : 'http'}://127.0.0.1:${this.port}/v1`;
  }

  #accept(socket) {
    const connection = new Connection(this, socket, this.connections.length);
    this.connections.push(connection);
    connection.serve().catch((error) => this.#faults.push(error));
  }

  answer(request) {
    const n = this.requests.push(request) - 1;
    for (const waiter of this.#waiters.splice(0)) waiter(request);
    return this.handler(request, request.socket, n);
  }

  // The next request to come.
  arrival() {
    return new Promise((resolve) => this.#waiters.push(resolve));
  }

  // A test's own handler, with nothing recorded yet.
  script(handler) {
    this.handler = handler;
    this.requests = [];
    this.early = () => false;
  }

  get open() {
    return this.connections.filter((connection) => connection.open).length;
  }

  async stop() {
    for (const connection of this.connections) connection.socket.destroy();
    this.server.close();
    if (this.#faults.length > 0) throw this.#faults[0];
  }
}

// The time at which a request's connection was closed.
export async function closing(request, limitMs = 10_000) {
  const limit = new AbortController();
  const late = sleep(limitMs, undefined, {signal: limit.signal}).then(
    () => Promise.reject(new Error(`the upstream connection is open after ${limitMs} ms`)),
    () => {},
  );
  return Promise.race([request.closed, late]).finally(() => limit.abort());
}

export {sleep};
export const tick = () => new Promise((resolve) => setImmediate(resolve));
export const reset = (socket) => socket.resetAndDestroy();

// A handler that always writes the same.
export const replies = (bytes) => (request, socket) => void socket.write(bytes);

// Writes `bytes` in pieces of `sizes` (a number: all alike; a list: then the rest), one a turn.
export async function pieces(socket, bytes, sizes) {
  const buffer = Buffer.from(bytes);
  let at = 0;
  for (let i = 0; at < buffer.length && !socket.destroyed; ++i) {
    const size = Array.isArray(sizes) ? (sizes[i] ?? buffer.length) : sizes;
    socket.write(buffer.subarray(at, at + size));
    at += size;
    await tick();
  }
}

export function head(status = 200, fields = {}, reason = 'Reason') {
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} ${reason}\r\n${lines.join('')}\r\n`;
}

// Whether weir only asks if somebody is there.
export const isProbe = (request) => request.path === '/health';

export function jsonReply(value, {status = 200, fields = {}} = {}) {
  const body = Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));
  const all = {'content-type': 'application/json', 'content-length': body.length, ...fields};
  return Buffer.concat([Buffer.from(head(status, all)), body]);
}

export function chunk(bytes) {
  const data = Buffer.from(bytes);
  return Buffer.concat([Buffer.from(`${data.length.toString(16)}\r\n`), data, Buffer.from('\r\n')]);
}
export const LAST_CHUNK = '0\r\n\r\n';

// One event; a string stands for itself, as [DONE] does.
export function event(value, {lineEnd = '\n', space = ' '} = {}) {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return `data:${space}${text}${lineEnd}${lineEnd}`;
}

export const SSE_FIELDS = {'content-type': 'text/event-stream; charset=utf-8'};

// Head and body of a whole event stream; framing: chunked (a chunk per event), length, close (to the end of
// the connection, which the caller makes).
export function sse(events, {framing = 'chunked', fields = {}, ...form} = {}) {
  const parts = events.map((value) => Buffer.from(event(value, form)));
  const own = {
    chunked: {'transfer-encoding': 'chunked'},
    length: {'content-length': parts.reduce((sum, part) => sum + part.length, 0)},
    close: {connection: 'close'},
  };
  const body = framing === 'chunked' ? [...parts.map(chunk), Buffer.from(LAST_CHUNK)] : parts;
  return Buffer.concat([Buffer.from(head(200, {...SSE_FIELDS, ...own[framing], ...fields})), ...body]);
}

export function chatReply(content = 'Nairobi', extra = {}) {
  const message = {role: 'assistant', content, refusal: null};
  const choices = [{index: 0, message, logprobs: null, finish_reason: 'stop'}];
  const usage = {prompt_tokens: 5, completion_tokens: 2, total_tokens: 7};
  return {id: 'r', object: 'chat.completion', created: 1, model: 'served', choices, usage, ...extra};
}

const BASE = {id: 'c', object: 'chat.completion.chunk', created: 1, model: 'served'};
export const delta = (fields, finish = null) => ({
  ...BASE,
  choices: [{index: 0, delta: fields, logprobs: null, finish_reason: finish}],
});
export const usageEvent = (prompt, completion) => ({
  ...BASE,
  choices: [],
  usage: {prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion},
});
export const PREAMBLE = delta({role: 'assistant', content: ''});

// A whole chat stream: preamble, one event per word, finish_reason, usage, [DONE].
export function chatEvents(
  words = ['The ', 'capital ', 'is ', 'Nairobi', ' – 東京 🦊.'],
  {usage = true} = {},
) {
  return [
    PREAMBLE,
    ...words.map((content) => delta({content})),
    delta({}, 'stop'),
    ...(usage ? [usageEvent(12, words.length)] : []),
    '[DONE]',
  ];
}

// The same for /v1/completions.
export function textEvents(words = ['one ', 'two'], {usage = true} = {}) {
  const base = {id: 't', object: 'text_completion', created: 1, model: 'served'};
  const part = (text, finish = null) => ({
    ...base,
    choices: [{index: 0, text, logprobs: null, finish_reason: finish}],
  });
  const counts = {prompt_tokens: 9, completion_tokens: words.length, total_tokens: 9 + words.length};
  return [
    ...words.map((word) => part(word)),
    part('', 'stop'),
    ...(usage ? [{...base, choices: [], usage: counts}] : []),
    '[DONE]',
  ];
}
