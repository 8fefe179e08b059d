// Event streams through the relay: framing, splits, preamble, tool-call deltas and usage. Ids are those of
// reported faults in other gateways.
import assert from 'node:assert/strict';
import {execFile} from 'node:child_process';
import {after, before, describe, test} from 'node:test';

import {COMPLETIONS, ask, start} from './support/client.js';
import {
  NAME,
  assertFailed,
  assertInterrupted,
  assertStream,
  inParallel,
  logLine,
  randomSource,
  startRelay,
  target,
  wholeStreamBody,
} from './support/relay.js';
import * as up from './support/upstream.js';

const EVENT_BYTES = 65_536;
const SEED = 20_260_303;
const WIDTH = 16;

let upstream;
let weir;
before(async () => {
  upstream = await up.Upstream.start();
  weir = await startRelay([target(upstream)], (config) => ({...config, limits: {event_bytes: EVENT_BYTES}}));
});
after(async () => {
  await weir.stop();
  await upstream.stop();
});

const EVENTS = up.chatEvents();
const LINE_ENDS = {LF: '\n', CR: '\r', CRLF: '\r\n'};
const payloadOf = (events, form) => events.map((value) => up.event(value, form)).join('');
const CHUNKED_HEAD = up.head(200, {...up.SSE_FIELDS, 'transfer-encoding': 'chunked'});

// A handler that writes a reply cut where the request's own field says.
const cutReply = (bytes) => (request, socket) => up.pieces(socket, bytes, JSON.parse(request.body).sizes);

describe('framing', {timeout: 300_000}, () => {
  test('B1 3-byte character split across two reads', async () => {
    const bytes = up.sse(EVENTS);
    const at = bytes.indexOf('東');
    for (const cut of [at + 1, at + 2, at + 4, at + 5]) {
      upstream.script(cutReply(bytes));
      assertStream(await ask(weir, wholeStreamBody({sizes: [cut]})), payloadOf(EVENTS), `cut at ${cut}`);
    }
  });

  for (const [name, lineEnd] of Object.entries(LINE_ENDS)) {
    for (const framing of ['chunked', 'length', 'close']) {
      test(`B2 ${name} line ends, framing ${framing}, at one byte a read`, async () => {
        const bytes = up.sse(EVENTS, {lineEnd, framing});
        upstream.script(async (request, socket) => {
          await up.pieces(socket, bytes, 1);
          if (framing === 'close') socket.end();
        });
        assertStream(await ask(weir, wholeStreamBody()), payloadOf(EVENTS, {lineEnd}));
      });

      test(`B2 ${name} line ends, framing ${framing}, split in two at every byte`, async () => {
        const bytes = up.sse(EVENTS, {lineEnd, framing});
        const payload = payloadOf(EVENTS, {lineEnd});
        upstream.script(async (request, socket) => {
          await cutReply(bytes)(request, socket);
          if (framing === 'close') socket.end();
        });
        await inParallel(Array.from(bytes.keys()).slice(1), WIDTH, async (cut) =>
          assertStream(await ask(weir, wholeStreamBody({sizes: [cut]})), payload, `cut at ${cut}`),
        );
      });
    }

    test(`B2 ${name} line ends, cut into random pieces (seed ${SEED})`, async () => {
      const random = randomSource(SEED);
      const bytes = up.sse(EVENTS, {lineEnd});
      upstream.script(cutReply(bytes));
      await inParallel(Array(200).keys(), WIDTH, async (round) => {
        const sizes = Array.from({length: 200}, () => 1 + random(40));
        const reply = await ask(weir, wholeStreamBody({sizes}));
        assertStream(reply, payloadOf(EVENTS, {lineEnd}), `round ${round}`);
      });
    });

    test(`B2 chunks that end anywhere inside events, ${name} line ends (seed ${SEED})`, async () => {
      const random = randomSource(SEED);
      const payload = Buffer.from(payloadOf(EVENTS, {lineEnd}));
      upstream.script(async (request, socket) => {
        socket.write(CHUNKED_HEAD);
        for (let at = 0; at < payload.length;) {
          const size = 1 + random(30);
          socket.write(up.chunk(payload.subarray(at, at + size)));
          at += size;
          if (random(3) === 0) await up.tick();
        }
        socket.write(up.LAST_CHUNK);
      });
      await inParallel(Array(50).keys(), WIDTH, async () =>
        assertStream(await ask(weir, wholeStreamBody()), payload),
      );
    });

    test(`${name}: each event is at the client before the next one is sent`, async () => {
      const forms = EVENTS.map((value) => up.event(value, {lineEnd}));
      let reply;
      const unmet = [];
      upstream.script(async (request, socket) => {
        socket.write(CHUNKED_HEAD);
        let sent = '';
        for (const [i, form] of forms.entries()) {
          socket.write(up.chunk(form));
          sent += form;
          // The preamble waits for the first content.
          if (i > 0 && !(await waits(() => reply?.text === sent))) unmet.push(i);
        }
        socket.write(up.LAST_CHUNK);
      });
      reply = await start(weir, wholeStreamBody());
      await reply.end;
      assert.deepEqual(unmet, [], 'events that did not come by themselves');
      assertStream(reply, forms.join(''));
      reply.client.leave();
    });
  }

  test('B3 data: without a space', async () => {
    upstream.script(up.replies(up.sse(EVENTS, {space: ''})));
    assertStream(await ask(weir, wholeStreamBody()), payloadOf(EVENTS, {space: ''}));
  });

  test('B5 JSON split over several chunks is no malformed JSON', async () => {
    const logged = weir.log.length;
    const [first, ...rest] = payloadOf(EVENTS)
      .match(/[^]{1,9}/g)
      .map(up.chunk);
    upstream.script(async (request, socket) => {
      socket.write(CHUNKED_HEAD);
      socket.write(first);
      for (const part of rest) socket.write(part);
      socket.write(up.LAST_CHUNK);
    });
    const reply = await ask(weir, wholeStreamBody());
    assertStream(reply, payloadOf(EVENTS));
    assert.equal((await logLine(weir, reply)).error, undefined);
    assert.doesNotMatch(weir.log.slice(logged), /malformed|not JSON|warn/i);
  });

  for (const [name, lineEnd] of Object.entries(LINE_ENDS)) {
    test(`B7 the load tool reads a stream with ${name} line ends`, async () => {
      upstream.script(up.replies(up.sse(EVENTS, {lineEnd})));
      const args = ['run', '--url', upstream.base.slice(0, -3), '--model', NAME, '--requests', '3', '--json'];
      const report = await new Promise((resolve) =>
        execFile(process.env.WEIR_LOADTEST_BIN, args, (error, out) => resolve(JSON.parse(out))),
      );
      assert.equal(report.completed, 3);
      assert.equal(report.total_output_tokens, 3 * 5);
      assert.ok(report.median_ttft_ms > 0);
    });
  }

  test('B8 a partial event that never ends, before the first content', async () => {
    const sent = await endless('');
    const reply = await ask(weir, wholeStreamBody());
    assertFailed(reply, 502, 'upstream_failed');
    await up.closing(upstream.requests[0]);
    assert.ok(sent.bytes < 16 << 20, `read ${sent.bytes} bytes of one event`);
  });

  test('B8 a partial event that never ends, after the first content', async () => {
    const begin = payloadOf(EVENTS.slice(0, 3));
    const sent = await endless(begin);
    const reply = await ask(weir, wholeStreamBody());
    assertInterrupted(reply, begin);
    await up.closing(upstream.requests[0]);
    assert.ok(sent.bytes < 16 << 20, `read ${sent.bytes} bytes of one event`);
  });

  for (const size of [EVENT_BYTES - 2, EVENT_BYTES + 2]) {
    test(`B8 an event of ${size} bytes under a limit of ${EVENT_BYTES}`, async () => {
      const room = size - up.event(up.delta({content: ''})).length;
      const events = [
        up.PREAMBLE,
        up.delta({content: 'a'}),
        up.delta({content: 'x'.repeat(room)}),
        ...EVENTS.slice(-3),
      ];
      assert.equal(up.event(events[2]).length, size);
      upstream.script(up.replies(up.sse(events)));
      const reply = await ask(weir, wholeStreamBody());
      if (size < EVENT_BYTES) assertStream(reply, payloadOf(events));
      else assertInterrupted(reply, payloadOf(events.slice(0, 2)));
    });
  }

  test('B9 odd headers of a streamed reply: the client gets a fresh set', async () => {
    const fields = {
      'x-powered-by': 'x',
      'set-cookie': 'a=b',
      server: 'uvicorn',
      'keep-alive': 'timeout=5',
      connection: 'keep-alive, x-hop',
      'x-hop': 'y',
      'alt-svc': 'h3=":443"',
      'x-request-id': 'of-the-upstream',
    };
    upstream.script(up.replies(up.sse(EVENTS, {fields})));
    const reply = await ask(weir, wholeStreamBody());
    assertStream(reply, payloadOf(EVENTS));
    for (const [name, value] of Object.entries(fields)) assert.notEqual(reply.headers[name], value, name);
    assert.ok(!('content-length' in reply.headers));
    assert.equal(new Set(reply.fields.map(([name]) => name.toLowerCase())).size, reply.fields.length);
    assert.equal(reply.headers['cache-control'], 'no-cache');
  });

  test('comments, event names, ids and unknown fields pass unchanged', async () => {
    const payload =
      ': comment before all\n\n' +
      `event: message\nid: 7\n${up.event(up.PREAMBLE)}` +
      ': ping\n\n' +
      `retry: 10\n${up.event(up.delta({content: 'a'}))}` +
      ': ping\n\n' +
      `vendor: x\n: inside\n${up.event(up.delta({content: 'b', vendor: {a: [1, null]}}))}` +
      up.event(up.delta({}, 'stop')) +
      up.event('[DONE]');
    upstream.script((request, socket) => {
      socket.write(CHUNKED_HEAD);
      socket.write(up.chunk(payload));
      socket.write(up.LAST_CHUNK);
    });
    assertStream(await ask(weir, wholeStreamBody()), payload);
  });
});

// True when the condition held within two seconds.
async function waits(holds) {
  const end = performance.now() + 2000;
  while (!holds()) {
    if (performance.now() > end) return false;
    await up.tick();
  }
  return true;
}

// Scripts a reply that begins with `begin` and goes on inside one event until the connection is closed.
async function endless(begin) {
  const sent = {bytes: 0};
  const piece = up.chunk('x'.repeat(4096));
  upstream.script(async (request, socket) => {
    socket.write(CHUNKED_HEAD);
    if (begin) socket.write(up.chunk(begin));
    socket.write(up.chunk('data: {"choices":[{"index":0,"delta":{"content":"'));
    while (!socket.destroyed && socket.writable && sent.bytes < 64 << 20) {
      sent.bytes += piece.length;
      if (socket.write(piece)) continue;
      await Promise.race([new Promise((resolve) => socket.once('drain', resolve)), request.closed]);
    }
  });
  return sent;
}

describe('the first content', {timeout: 60_000}, () => {
  const kinds = {
    content: up.delta({content: 'a'}),
    reasoning: up.delta({reasoning: 'hm'}),
    reasoning_content: up.delta({reasoning_content: 'hm'}),
    refusal: up.delta({refusal: 'no'}),
    'a tool call': up.delta({
      tool_calls: [{index: 0, id: 'c', type: 'function', function: {name: 'f', arguments: ''}}],
    }),
    'finish_reason alone': up.delta({}, 'stop'),
  };
  for (const [name, value] of Object.entries(kinds)) {
    test(`${name} lets head and preamble go, nothing before it does`, async () => {
      let go;
      const held = new Promise((resolve) => {
        go = resolve;
      });
      upstream.script(async (request, socket) => {
        socket.write(CHUNKED_HEAD);
        socket.write(up.chunk(`: waiting\n\n${up.event(up.PREAMBLE)}`));
        await held;
        socket.write(up.chunk(up.event(value)));
      });
      const arrival = upstream.arrival();
      const reply = await start(weir, wholeStreamBody());
      await arrival;
      await up.sleep(50); // long enough for a head that were not held
      assert.equal(reply.status, undefined, 'the head was not held');
      go();
      const payload = `: waiting\n\n${up.event(up.PREAMBLE)}${up.event(value)}`;
      await reply.untilText(up.event(value));
      assert.equal(reply.text, payload);
      up.reset(upstream.requests[0].socket);
      await reply.end;
      assertInterrupted(reply, payload);
      reply.client.leave();
    });
  }

  test('text of a completion is content', async () => {
    const [first] = up.textEvents();
    upstream.script((request, socket) => {
      socket.write(CHUNKED_HEAD);
      socket.write(up.chunk(up.event(first)));
    });
    const body = {model: NAME, prompt: 'x', stream: true, stream_options: {include_usage: true}};
    const reply = await start(weir, body, {route: COMPLETIONS});
    assert.ok(await reply.untilText(up.event(first)));
    reply.client.leave();
  });

  test('a stream of nothing but a preamble and its end is no answer', async () => {
    upstream.script((request, socket) => {
      socket.write(CHUNKED_HEAD);
      socket.write(up.chunk(up.event(up.PREAMBLE)));
      socket.write(up.LAST_CHUNK);
    });
    assertFailed(await ask(weir, wholeStreamBody()), 502, 'upstream_failed');
  });
});
