// Each time limit by itself: connect, TLS, first token, between tokens, whole replies, stalled clients,
// idle connections. Ids are those of reported faults in other gateways.
import assert from 'node:assert/strict';
import {once} from 'node:events';
import net from 'node:net';
import {after, before, describe, test} from 'node:test';
import {Worker} from 'node:worker_threads';

import {Client, ask, start} from './support/client.js';
import {
  assertAdds,
  assertFailed,
  assertInterrupted,
  assertStream,
  attempts,
  chatBody,
  connections,
  retries,
  startRelay,
  statuses,
  streamBody,
  target,
  wholeStreamBody,
  relayOf,
} from './support/relay.js';
import * as up from './support/upstream.js';

const FIRST_MS = 400;
const BETWEEN_MS = 400;
const TOTAL_MS = 600;
const WRITE_IDLE_MS = 700;
const LATE_MS = 5000; // a limit that fires later than this after its time did not fire
const CHUNKED_HEAD = up.head(200, {...up.SSE_FIELDS, 'transfer-encoding': 'chunked'});

let upstream;
let weir;
before(async () => {
  upstream = await up.Upstream.start();
  const limits = {
    first_token_timeout_ms: FIRST_MS,
    inter_token_timeout_ms: BETWEEN_MS,
    request_timeout_ms: TOTAL_MS,
    write_idle_timeout_ms: WRITE_IDLE_MS,
  };
  weir = await startRelay([target(upstream)], (config) => ({...config, limits}));
});
after(async () => {
  await weir.stop();
  await upstream.stop();
});

const payloadOf = (events) => events.map((value) => up.event(value)).join('');

// Runs `act` and checks that it took `limit` ms, neither less nor much more.
async function takes(limit, act) {
  const begin = performance.now();
  const value = await act();
  const took = performance.now() - begin;
  assert.ok(took >= limit - 20 && took <= limit + LATE_MS, `took ${took} ms, not ${limit}`);
  return value;
}

const timesOut = (limit, body) =>
  takes(limit, () =>
    assertAdds(
      () => attempts(weir),
      {timeout: 1},
      () => ask(weir, body),
    ),
  );

describe('upstream', {timeout: 120_000}, () => {
  const silences = {
    'sends nothing': () => {},
    'sends half a head': (request, socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-type: te'),
    'sends a head': (request, socket) => socket.write(CHUNKED_HEAD),
    'sends a preamble': (request, socket) => socket.write(CHUNKED_HEAD + up.chunk(up.event(up.PREAMBLE))),
    'sends comments forever': async (request, socket) => {
      socket.write(CHUNKED_HEAD);
      while (!socket.destroyed && socket.writable) {
        socket.write(up.chunk(': wait\n\n'));
        await up.sleep(50);
      }
    },
    'sends one byte of the head at a time': async (request, socket) => {
      for (const byte of `${CHUNKED_HEAD}${'x'.repeat(1000)}`) {
        if (socket.destroyed || !socket.writable) return;
        socket.write(byte);
        await up.sleep(20);
      }
    },
  };
  for (const [name, handler] of Object.entries(silences)) {
    test(`first token: an upstream that ${name} is 504 after its limit`, async () => {
      upstream.script(handler);
      assertFailed(await timesOut(FIRST_MS, streamBody()), 504, 'deadline_exceeded');
      await up.closing(upstream.requests[0]);
    });
  }

  test('F1 between tokens: silence after content ends in one error event after its limit', async () => {
    const payload = payloadOf([up.PREAMBLE, up.delta({content: 'a'})]);
    upstream.script((request, socket) => socket.write(CHUNKED_HEAD + up.chunk(payload)));
    assertInterrupted(await timesOut(BETWEEN_MS, wholeStreamBody()), payload, 'deadline_exceeded');
    await up.closing(upstream.requests[0]);
  });

  test('F1 between tokens: half an event, then silence: nothing of it reaches the client', async () => {
    const payload = payloadOf([up.PREAMBLE, up.delta({content: 'a'})]);
    upstream.script((request, socket) => socket.write(CHUNKED_HEAD + up.chunk(`${payload}data: {"cho`)));
    assertInterrupted(await timesOut(BETWEEN_MS, wholeStreamBody()), payload, 'deadline_exceeded');
  });

  test('F1 a stream longer than every limit lives while its tokens come', async () => {
    const events = up.chatEvents(Array.from({length: 20}, (_, i) => `word ${i} `));
    upstream.script(async (request, socket) => {
      socket.write(CHUNKED_HEAD);
      for (const value of events) {
        socket.write(up.chunk(up.event(value)));
        await up.sleep(BETWEEN_MS / 4);
      }
      socket.write(up.LAST_CHUNK);
    });
    const reply = await takes(((events.length - 1) * BETWEEN_MS) / 4, () => ask(weir, wholeStreamBody()));
    assertStream(reply, payloadOf(events));
  });

  test('the total limit of a whole reply: 504, though bytes come', async () => {
    const bytes = up.jsonReply(up.chatReply('x'.repeat(10_000)));
    upstream.script(async (request, socket) => {
      for (let at = 0; at < bytes.length && socket.writable; at += 50) {
        socket.write(bytes.subarray(at, at + 50));
        await up.sleep(20);
      }
    });
    assertFailed(await timesOut(TOTAL_MS, chatBody()), 504, 'deadline_exceeded');
    await up.closing(upstream.requests[0]);
  });

  test('the total limit of a reply that never begins: 504', async () => {
    upstream.script(() => {});
    assertFailed(await timesOut(TOTAL_MS, chatBody()), 504, 'deadline_exceeded');
  });

  test('limits of the target go before those of the process', async (t) => {
    const own = {first_token_timeout_ms: 150, inter_token_timeout_ms: 1500, request_timeout_ms: 150};
    const other = await relayOf(t, [target(upstream, own)], (config) => ({
      ...config,
      limits: {first_token_timeout_ms: 60_000, inter_token_timeout_ms: 100, request_timeout_ms: 60_000},
    }));
    upstream.script(() => {});
    assertFailed(await takes(150, () => ask(other, streamBody())), 504, 'deadline_exceeded');
    assertFailed(await takes(150, () => ask(other, chatBody())), 504, 'deadline_exceeded');
    upstream.script(async (request, socket) => {
      const bytes = up.sse(up.chatEvents());
      const half = bytes.indexOf('Nairobi');
      socket.write(bytes.subarray(0, half));
      await up.sleep(400);
      socket.write(bytes.subarray(half));
    });
    assertStream(await ask(other, wholeStreamBody()), payloadOf(up.chatEvents()));
  });
});

describe('connecting', {timeout: 120_000}, () => {
  // A listener whose queue is full: a connection to it hangs. Its thread never accepts.
  async function fullListener(t) {
    const worker = new Worker(
      `const {parentPort} = require('node:worker_threads');
       const server = require('node:net').createServer();
       server.listen({port: 0, host: '127.0.0.1', backlog: 1}, () => {
         parentPort.postMessage(server.address().port);
         setImmediate(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0));
       });`,
      {eval: true},
    );
    const [port] = await once(worker, 'message');
    const fillers = [];
    for (let hangs = false; !hangs && fillers.length < 20;) {
      const socket = net.connect(port, '127.0.0.1').on('error', () => {});
      fillers.push(socket);
      hangs = await Promise.race([once(socket, 'connect').then(() => false), up.sleep(300).then(() => true)]);
    }
    t.after(async () => {
      for (const socket of fillers) socket.destroy();
      await worker.terminate();
    });
    return {base: `http://127.0.0.1:${port}/v1`};
  }

  for (const [name, body] of Object.entries({stream: streamBody(), whole: chatBody()})) {
    test(`connect_timeout_ms: a host that does not answer is 502 (${name})`, async (t) => {
      const full = await fullListener(t);
      const other = await relayOf(t, [target(full, {connect_timeout_ms: 300})]);
      await assertAdds(
        () => attempts(other),
        {connect_failed: 1},
        async () => assertFailed(await takes(300, () => ask(other, body)), 502, 'upstream_failed'),
      );
    });
  }

  test('tls_timeout_ms: a host that accepts but shakes no hands is 502', async (t) => {
    const silent = net.createServer(() => {}).listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const sockets = [];
    silent.on('connection', (socket) => sockets.push(socket.on('error', () => {})));
    t.after(() => {
      for (const socket of sockets) socket.destroy();
      silent.close();
    });
    const base = `https://127.0.0.1:${silent.address().port}/v1`;
    const other = await relayOf(t, [target({base}, {tls_timeout_ms: 300})]);
    await assertAdds(
      () => attempts(other),
      {connect_failed: 1},
      async () => assertFailed(await takes(300, () => ask(other, chatBody())), 502, 'upstream_failed'),
    );
  });
});

describe('stalled clients', {timeout: 120_000}, () => {
  // Streams `count` large events, or without end.
  const large = (count) => async (request, socket) => {
    socket.write(CHUNKED_HEAD);
    for (let i = 0; i < count && socket.writable; ++i) {
      if (!socket.write(up.chunk(up.event(up.delta({content: String(i).padStart(16_000, '.')})))))
        await Promise.race([new Promise((resolve) => socket.once('drain', resolve)), request.closed]);
    }
    if (!socket.writable) return;
    socket.write(up.chunk(payloadOf([up.delta({}, 'stop'), '[DONE]'])));
    socket.write(up.LAST_CHUNK);
  };

  test('write idle: a client that does not read is cut, and the upstream let go', async () => {
    upstream.script(large(Infinity));
    const arrival = upstream.arrival();
    const reply = await start(weir, streamBody());
    const request = await arrival;
    await reply.until(() => reply.parts.length > 0);
    reply.client.socket.pause();
    await takes(WRITE_IDLE_MS / 2, () => up.closing(request));
    reply.client.leave();
  });

  test("F1 the inter-token limit is the upstream's: a client that pauses loses nothing", async (t) => {
    const other = await relayOf(t, [target(upstream, {inter_token_timeout_ms: 200})]);
    const count = 2000;
    upstream.script(large(count));
    const reply = await start(other, streamBody());
    await reply.until(() => reply.parts.length > 0);
    for (let round = 0; round < 3; ++round) {
      reply.client.socket.pause();
      await up.sleep(600); // three times the limit
      reply.client.socket.resume();
      const seen = reply.parts.length;
      await reply.until(() => reply.parts.length > seen + 100);
    }
    assert.equal(await reply.end, 'complete');
    const numbers = [...reply.text.matchAll(/\.(\d+)"/g)].map(([, i]) => Number(i));
    assert.deepEqual(
      numbers,
      Array.from({length: count}, (_, i) => i),
    );
    reply.client.leave();
    assert.deepEqual(await statuses(other), {200: 1});
  });
});

describe('idle connections', {timeout: 120_000}, () => {
  test('F3 a pooled connection is closed by weir before 4 s are over', async (t) => {
    const other = await relayOf(t, [target(upstream)]);
    upstream.script(up.replies(up.jsonReply(up.chatReply())));
    await ask(other, chatBody());
    const begin = performance.now();
    const closed = await up.closing(upstream.requests[0]);
    assert.ok(closed - begin < 4500, `${closed - begin} ms`);
  });

  for (const how of ['RST', 'FIN']) {
    test(`F3 a pooled connection that ends at the next request (${how}): one retry, unseen`, async () => {
      upstream.script((request, socket) => {
        if (request.index === 0) socket.write(up.jsonReply(up.chatReply(String(request.connection))));
        else if (how === 'FIN') socket.end();
        else up.reset(socket);
      });
      assert.equal((await ask(weir, chatBody())).status, 200);
      const before = await retries(weir);
      upstream.requests = [];
      const reply = await assertAdds(
        () => connections(weir),
        {reused: 1, new: 1},
        () => ask(weir, chatBody()),
      );
      assert.equal(reply.status, 200);
      assert.equal(await retries(weir), before + 1);
      assert.equal(upstream.requests.length, 2);
      const [first, again] = upstream.requests;
      assert.notEqual(again.connection, first.connection);
      assert.deepEqual(again.body, first.body);
    });
  }

  test('F3 a pooled connection that the upstream closed while idle costs nothing', async () => {
    upstream.script((request, socket) => {
      socket.write(up.jsonReply(up.chatReply()));
      setTimeout(() => socket.end(), 20);
    });
    for (let i = 0; i < 20; ++i) {
      assert.equal((await ask(weir, streamBody({stream: false}))).status, 200);
      await up.sleep(10 + 2 * i); // around the upstream's close
    }
  });

  test('F4 our own keep-alive outlives client pools: idle for 6 s, then served', async (t) => {
    const other = await relayOf(t, [target(upstream)]);
    upstream.script(up.replies(up.jsonReply(up.chatReply())));
    const client = await Client.connect(other.url);
    assert.equal(await client.post(chatBody()).end, 'complete');
    await up.sleep(6000);
    assert.equal(await client.post(chatBody()).end, 'complete');
    assert.ok(client.open);
    client.leave();
  });
});
