// HTTPS upstreams: a certificate is verified against the configured authority and the host's name, or it is
// 502.
import assert from 'node:assert/strict';
import {mkdtempSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import path from 'node:path';
import {after, before, describe, test} from 'node:test';

import {ask, start} from './support/client.js';
import {Authority} from './support/certificates.js';
import {
  CANCEL_MS,
  assertAdds,
  assertFailed,
  assertInterrupted,
  assertStream,
  attempts,
  chatBody,
  connections,
  startRelay,
  streamBody,
  target,
  wholeStreamBody,
  relayOf,
  upstreamOf,
} from './support/relay.js';
import * as up from './support/upstream.js';

const NAMES = 'IP:127.0.0.1,DNS:localhost';
let dir;
let ours;
let other;
let upstream;
let weir;
before(async () => {
  dir = mkdtempSync(path.join(tmpdir(), 'weir-tls-'));
  ours = new Authority(dir, 'ours');
  other = new Authority(dir, 'other');
  upstream = await up.Upstream.start(undefined, {credentials: ours.issue(NAMES)});
  weir = await startRelay([target(upstream, {ca_file: ours.file})]);
});
after(async () => {
  await weir.stop();
  await upstream.stop();
  rmSync(dir, {recursive: true});
});

const payload = up
  .chatEvents()
  .map((value) => up.event(value))
  .join('');

describe('verified', {timeout: 60_000}, () => {
  test('whole replies and streams, over one connection that is used again', async () => {
    upstream.script(up.replies(up.jsonReply(up.chatReply('secure'))));
    assert.equal((await ask(weir, chatBody())).json.choices[0].message.content, 'secure');
    await assertAdds(
      () => connections(weir),
      {reused: 2},
      async () => {
        upstream.script(up.replies(up.sse(up.chatEvents())));
        assertStream(await ask(weir, wholeStreamBody()), payload);
        assertStream(await ask(weir, wholeStreamBody()), payload);
      },
    );
  });

  test('by name: localhost', async (t) => {
    upstream.script(up.replies(up.jsonReply(up.chatReply())));
    const base = `https://localhost:${upstream.port}/v1`;
    const named = await relayOf(t, [target({base}, {ca_file: ours.file})]);
    assert.equal((await ask(named, chatBody())).status, 200);
    assert.equal(upstream.requests[0].headers.host, `localhost:${upstream.port}`);
  });

  test('4 MB each way, in records of any size', async () => {
    const text = 'x'.repeat(4 << 20);
    upstream.script((request, socket) => up.pieces(socket, up.jsonReply(up.chatReply(text)), 100_001));
    const reply = await ask(weir, chatBody({filler: text}));
    assert.equal(reply.json.choices[0].message.content.length, text.length);
    assert.equal(JSON.parse(upstream.requests[0].body).filler.length, text.length);
  });

  test('a reply without a length that is cut without close_notify is no reply', async () => {
    const text = JSON.stringify(up.chatReply());
    upstream.script(async (request, socket) => {
      socket.write(up.head(200, {'content-type': 'application/json'}) + text.slice(0, -20));
      await up.sleep(50);
      socket.destroy();
    });
    assertFailed(await ask(weir, chatBody()), 502, 'upstream_failed');
    upstream.script((request, socket) => {
      socket.end(up.head(200, {'content-type': 'application/json'}) + text);
    });
    assert.equal((await ask(weir, chatBody())).text, text);
  });

  test('a stream that is cut without close_notify is no clean end', async () => {
    const events = up.chatEvents().slice(0, -1); // all but [DONE]
    const bytes = up.sse(events, {framing: 'close'});
    upstream.script(async (request, socket) => {
      socket.write(bytes);
      await up.sleep(50);
      socket.destroy();
    });
    assertInterrupted(await ask(weir, wholeStreamBody()), events.map((value) => up.event(value)).join(''));
  });

  test(`a client that leaves closes the upstream within ${CANCEL_MS} ms`, async () => {
    upstream.script(() => {});
    await assertAdds(
      () => attempts(weir),
      {cancelled: 1},
      async () => {
        const arrival = upstream.arrival();
        const reply = await start(weir, streamBody());
        const request = await arrival;
        const left = performance.now();
        reply.client.leave();
        const took = (await up.closing(request)) - left;
        assert.ok(took <= CANCEL_MS, `${took} ms`);
      },
    );
  });
});

describe('not verified', {timeout: 60_000}, () => {
  const cases = {
    'a wrong authority': () => [other.issue(NAMES), {ca_file: ours.file}],
    'the authorities of the system': () => [ours.issue(NAMES), {}],
    'a wrong host': () => [ours.issue('DNS:replica.example,IP:127.0.0.2'), {ca_file: ours.file}],
    'a name that only looks like the address': () => [ours.issue('DNS:127.0.0.1'), {ca_file: ours.file}],
    'an expired certificate': () => [ours.issue(NAMES, '20010101000000Z'), {ca_file: ours.file}],
  };
  for (const [name, make] of Object.entries(cases)) {
    test(`${name}: 502, and no request leaves`, async (t) => {
      const [credentials, fields] = make();
      const bad = await upstreamOf(t, undefined, {credentials});
      const relay = await relayOf(t, [target(bad, fields)]);
      for (const body of [chatBody(), streamBody()]) {
        await assertAdds(
          () => attempts(relay),
          {connect_failed: 1},
          async () => assertFailed(await ask(relay, body), 502, 'upstream_failed'),
        );
      }
      assert.equal(bad.requests.length, 0);
    });
  }

  test('plain HTTP where TLS is expected: 502', async (t) => {
    const plain = await upstreamOf(t);
    const relay = await relayOf(t, [
      target({base: plain.base.replace('http:', 'https:')}, {ca_file: ours.file, tls_timeout_ms: 500}),
    ]);
    assertFailed(await ask(relay, chatBody()), 502, 'upstream_failed');
  });
});
