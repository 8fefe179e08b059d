// What holds whatever a target does: deadlines in every phase, a target's places, and that no byte of one reply
// reaches another request, over TLS as over plain TCP.
import assert from 'node:assert/strict';
import {once} from 'node:events';
import {mkdtempSync, rmSync} from 'node:fs';
import net from 'node:net';
import {tmpdir} from 'node:os';
import path from 'node:path';
import {after, before, describe, test} from 'node:test';

import {Authority} from './support/certificates.js';
import {ask} from './support/client.js';
import {
  assertFailed,
  assertInterrupted,
  attempts,
  chatBody,
  relayOf,
  streamBody,
  target,
  upstreamOf,
} from './support/relay.js';
import * as up from './support/upstream.js';

const LIMIT_MS = 500;
const SLACK_MS = 3000; // of a busy machine; the limits that would apply otherwise are far above it
const FAR_MS = 30_000;
const DEADLINES = {request_timeout_ms: LIMIT_MS, first_token_timeout_ms: LIMIT_MS};

async function within(limitMs, act) {
  const begin = performance.now();
  const value = await act();
  const took = performance.now() - begin;
  assert.ok(took < limitMs + SLACK_MS, `took ${took} ms, not ${limitMs}`);
  return value;
}

// Takes connections and reads nothing from them.
async function deafServer(t) {
  const sockets = [];
  const server = net.createServer({pauseOnConnect: true}, (socket) => {
    socket.on('error', () => {});
    sockets.push(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    sockets.forEach((socket) => socket.destroy());
    server.close();
  });
  return `127.0.0.1:${server.address().port}`;
}

describe('deadlines', {timeout: 120_000}, () => {
  test('a target that does not read the request: 504 at the deadline, sent once', async (t) => {
    const at = await deafServer(t);
    const weir = await relayOf(t, [{name: 'r1', http: {base_url: `http://${at}/v1`, ...DEADLINES}}], (c) => ({
      ...c,
      limits: {write_idle_timeout_ms: FAR_MS},
    }));
    const body = chatBody({messages: [{role: 'user', content: 'x'.repeat(24 << 20)}]});
    // The upload to weir itself takes a while and counts to no deadline of the target.
    const reply = await within(LIMIT_MS + 2000, () => ask(weir, body));
    assertFailed(reply, 504, 'deadline_exceeded');
    assert.equal((await attempts(weir)).timeout, 1);
  });

  test('a TLS handshake that stalls ends at the deadline, not at its own limit', async (t) => {
    const at = await deafServer(t);
    const http = {base_url: `https://${at}/v1`, tls_timeout_ms: FAR_MS, ...DEADLINES};
    const weir = await relayOf(t, [{name: 'r1', http}]);
    const reply = await within(LIMIT_MS, () => ask(weir, chatBody()));
    assertFailed(reply, 504, 'deadline_exceeded');
  });

  test('a hung target that still sends comments ends at the inter-token limit', async (t) => {
    const upstream = await upstreamOf(t, (request, socket) => {
      socket.write(up.head(200, {...up.SSE_FIELDS, 'transfer-encoding': 'chunked'}));
      socket.write(up.chunk(up.event(up.delta({content: 'a'}))));
      const beat = setInterval(() => socket.write(up.chunk(': ping\n\n')), 50);
      socket.on('close', () => clearInterval(beat));
    });
    const weir = await relayOf(t, [target(upstream, {inter_token_timeout_ms: LIMIT_MS})]);
    const reply = await within(LIMIT_MS, () => ask(weir, streamBody()));
    assertInterrupted(reply, () => {}, 'deadline_exceeded');
  });
});

describe('replies', {timeout: 120_000}, () => {
  let dir, ours;
  before(() => {
    dir = mkdtempSync(path.join(tmpdir(), 'weir-promises-'));
    ours = new Authority(dir, 'ours');
  });
  after(() => rmSync(dir, {recursive: true}));

  for (const tls of [false, true]) {
    test(`an unasked second reply reaches nobody (${tls ? 'TLS' : 'plain'})`, async (t) => {
      const credentials = tls ? ours.issue('IP:127.0.0.1') : undefined;
      const upstream = await upstreamOf(
        t,
        (request, socket) => {
          const {content} = JSON.parse(String(request.body)).messages[0];
          socket.write(up.jsonReply(up.chatReply(content)));
          setTimeout(() => socket.write(up.jsonReply(up.chatReply('stray'))), 5);
        },
        {credentials},
      );
      const weir = await relayOf(t, [target(upstream, tls ? {ca_file: ours.file} : {})]);
      for (let i = 0; i < 30; ++i) {
        const said = `r${i}`;
        const reply = await ask(weir, chatBody({messages: [{role: 'user', content: said}]}));
        assert.equal(reply.json.choices[0].message.content, said);
        await up.sleep(30); // the stray reply is there by now
      }
    });
  }

  test('a stream of two choices of which one did not finish is no clean end', async (t) => {
    const choice = (index, delta, finish) => ({
      ...up.delta(delta, finish),
      choices: [{index, delta, finish_reason: finish ?? null}],
    });
    const events = [choice(0, {content: 'a'}), choice(1, {content: 'b'}), choice(0, {}, 'stop')];
    const upstream = await upstreamOf(t, (request, socket) => {
      socket.end(up.head(200, up.SSE_FIELDS) + events.map((value) => up.event(value)).join(''));
    });
    const weir = await relayOf(t, [target(upstream)]);
    assertInterrupted(await ask(weir, streamBody({n: 2})), () => {});
  });

  test('a place at a target is free again once its answer is there', async (t) => {
    const upstream = await upstreamOf(t, up.replies(up.jsonReply(up.chatReply('free'))));
    const weir = await relayOf(t, [target(upstream, {connections: 1})], (c) => ({...c, io_threads: 2}));
    for (let i = 0; i < 300; ++i) {
      const reply = await ask(weir, chatBody());
      assert.equal(reply.status, 200, `request ${i}: ${reply.text}`);
    }
  });
});
