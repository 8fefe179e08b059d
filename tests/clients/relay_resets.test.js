// An upstream that dies at any byte of its reply, by RST and by FIN: what the client sees is one of the
// defined outcomes and never a clean end of what is not whole.
import assert from 'node:assert/strict';
import {after, before, describe, test} from 'node:test';

import {ask, splitEvents} from './support/client.js';
import {eventually} from './support/raw.js';
import {
  assertAdds,
  assertFailed,
  assertInterrupted,
  assertStream,
  attempts,
  chatBody,
  inParallel,
  retries,
  startRelay,
  streamBody,
  target,
  wholeStreamBody,
  relayOf,
  upstreamOf,
} from './support/relay.js';
import * as up from './support/upstream.js';

const WIDTH = 32;

let upstream;
let weir;
before(async () => {
  upstream = await up.Upstream.start();
  weir = await startRelay([target(upstream)]);
});
after(async () => {
  await weir.stop();
  await upstream.stop();
});

// Ends after the first `k` bytes, as the request's own fields say.
const dies = (bytes) => (request, socket) => {
  const {k, how} = JSON.parse(request.body);
  socket.write(bytes.subarray(0, k));
  if (how === 'FIN') socket.end();
  else up.reset(socket);
};

const FRAMINGS = {
  chunked: {framing: 'chunked', fields: {connection: 'close'}},
  length: {framing: 'length', fields: {connection: 'close'}},
  close: {framing: 'close'},
};
const EVENTS = up.chatEvents();
const FIRST_CONTENT = 1;
const DONE = EVENTS.length - 1;
const FINISH = DONE - 2; // usage is between them
const FORMS = EVENTS.map((value) => Buffer.from(up.event(value)));

// The size of the reply up to the end of each event's bytes.
function endsOfEvents(bytes) {
  let at = 0;
  return FORMS.map((form) => {
    at = bytes.indexOf(form, at) + form.length;
    return at;
  });
}

// How many whole events lie in the first k bytes.
const wholeEvents = (ends, k) => ends.filter((end) => end <= k).length;
const prefix = (count) => Buffer.concat(FORMS.slice(0, count));

// Without a length the end of the connection is the end of the body: after finish_reason that is all of it,
// and the line ends of the last event may be missing.
function assertEnded(reply, got, what) {
  const forms = [String(prefix(got)), `${prefix(got)}${FORMS[DONE]}`];
  assert.ok(got > FINISH, what);
  assert.ok(forms.includes(reply.text.replace(/\n+/g, '\n\n')), `${what} ${reply.text.slice(-200)}`);
}

// The defined outcome where weir has read exactly `count` whole events and then saw the end.
function assertOutcome(reply, {count, got, whole, framing}, what) {
  if (count <= FIRST_CONTENT) return assertFailed(reply, 502, 'upstream_failed', what);
  if (count > DONE || whole) return assertStream(reply, prefix(count), what);
  if (framing === 'close' && reply.ended === 'complete') return assertEnded(reply, got, what);
  assertInterrupted(reply, prefix(count), 'stream_interrupted', what);
}

// A reset may overtake bytes: then the outcome is that of fewer events.
function assertOutcomeOfReset(reply, count, what) {
  if (reply.status === 502) return assertFailed(reply, 502, 'upstream_failed', what);
  if (reply.ended === 'complete') {
    assert.ok(count > DONE, `${what}: a clean end, ${JSON.stringify(reply.text.slice(-100))}`);
    return assertStream(reply, prefix(DONE + 1), what);
  }
  return assertInterrupted(
    reply,
    (before) => {
      const got = splitEvents(before).events.length;
      assert.ok(got > FIRST_CONTENT && got <= count, what);
      assert.equal(String(before), String(prefix(got)), what);
    },
    'stream_interrupted',
    what,
  );
}

const total = (added) => Object.values(added).reduce((sum, n) => sum + n, 0);

describe('an upstream that dies after k bytes', {timeout: 300_000}, () => {
  for (const [framing, form] of Object.entries(FRAMINGS)) {
    const bytes = up.sse(EVENTS, form);
    const ends = endsOfEvents(bytes);
    for (const how of ['FIN', 'RST']) {
      test(`A3 a stream (${framing}), ${how} at every byte k of ${bytes.length}`, async () => {
        upstream.script(dies(bytes));
        const then = await attempts(weir);
        let whole = 0;
        await inParallel(Array(bytes.length + 1).keys(), WIDTH, async (k) => {
          const reply = await ask(weir, wholeStreamBody({k, how}));
          const what = `k=${k} ${how} ${framing}`;
          const count = wholeEvents(ends, k);
          if (reply.ended === 'complete' && reply.status === 200) ++whole;
          if (how === 'RST') assertOutcomeOfReset(reply, count, what);
          else
            assertOutcome(
              reply,
              {count, got: wholeEvents(ends, k + 2), whole: k === bytes.length, framing},
              what,
            );
        });
        assert.ok(whole >= (how === 'FIN' ? 1 : 0));
        let now;
        await eventually('one outcome for each attempt', async () => {
          now = await attempts(weir);
          return total(now) - total(then) === bytes.length + 1;
        });
        assert.equal(now.cancelled ?? 0, then.cancelled ?? 0);
        assert.ok((now.ok ?? 0) - (then.ok ?? 0) <= whole, 'only whole replies are ok');
        assert.equal(now.timeout ?? 0, then.timeout ?? 0);
      });
    }
  }

  test('A3 our own usage event is dropped from what came before the cut', async () => {
    const bytes = up.sse(EVENTS, FRAMINGS.chunked);
    const ends = endsOfEvents(bytes);
    upstream.script(dies(bytes));
    const reply = await ask(weir, streamBody({k: ends[DONE - 1], how: 'FIN'}));
    assertInterrupted(reply, prefix(DONE - 1));
  });

  for (const how of ['FIN', 'RST']) {
    for (const framing of ['length', 'chunked', 'close']) {
      const body = Buffer.from(JSON.stringify(up.chatReply('Nairobi – 東京')));
      const fields = {'content-type': 'application/json', connection: 'close'};
      const whole = {
        length: () => [up.head(200, {...fields, 'content-length': body.length}), body],
        chunked: () => [
          up.head(200, {...fields, 'transfer-encoding': 'chunked'}),
          up.chunk(body.subarray(0, 100)),
          up.chunk(body.subarray(100)),
          up.LAST_CHUNK,
        ],
        close: () => [up.head(200, fields), body],
      };
      const bytes = Buffer.concat(whole[framing]().map((part) => Buffer.from(part)));
      test(`a JSON reply (${framing}), ${how} at every byte k of ${bytes.length}`, async () => {
        upstream.script(dies(bytes));
        await inParallel(Array(bytes.length + 1).keys(), WIDTH, async (k) => {
          const reply = await ask(weir, chatBody({k, how}));
          const what = `k=${k} ${how} ${framing}`;
          const whole = k === bytes.length;
          // Without a length a FIN may be the end anywhere behind the head.
          const head = bytes.length - body.length;
          const mayEnd = whole || (framing === 'close' && how === 'FIN' && k >= head);
          if (whole && how === 'FIN') assert.equal(reply.status, 200, what);
          if (!mayEnd || reply.status !== 200) return void assertFailed(reply, 502, 'upstream_failed', what);
          assert.equal(reply.ended, 'complete', what);
          assert.equal(String(reply.body), String(whole ? body : bytes.subarray(head, k)), what);
        });
      });
    }
  }

  for (const how of ['FIN', 'RST']) {
    test(`while the request is still being sent, ${how}`, async () => {
      upstream.script(up.replies(up.jsonReply(up.chatReply())));
      upstream.early = (request) => {
        if (how === 'FIN') request.socket.end();
        else up.reset(request.socket);
        return true;
      };
      const reply = await ask(weir, chatBody({filler: 'x'.repeat(8 << 20)}));
      assertFailed(reply, 502, 'upstream_failed');
    });
  }

  test('a fresh connection that is cut before any byte is not tried again', async () => {
    upstream.script((request, socket) => up.reset(socket));
    const before = await retries(weir);
    await assertAdds(
      () => attempts(weir),
      {broken: 1},
      async () => assertFailed(await ask(weir, chatBody()), 502, 'upstream_failed'),
    );
    assert.equal(upstream.requests.length, 1);
    assert.equal(await retries(weir), before);
  });

  test('nothing listens: 502, counted as connect_failed', async (t) => {
    const gone = await upstreamOf(t);
    const other = await relayOf(t, [target(gone)]);
    await gone.stop();
    for (const body of [chatBody(), streamBody()]) {
      await assertAdds(
        () => attempts(other),
        {connect_failed: 1},
        async () => assertFailed(await ask(other, body), 502, 'upstream_failed'),
      );
    }
  });

  test('after all of it a request is answered and every connection is gone', async () => {
    upstream.script(up.replies(up.jsonReply(up.chatReply('alive'), {fields: {connection: 'close'}})));
    const reply = await ask(weir, chatBody());
    assert.equal(reply.json.choices[0].message.content, 'alive');
    for (const connection of upstream.connections) await connection.closed;
    assert.deepEqual(upstream.malformed, []);
    assert.doesNotMatch(weir.log, /fault/);
  });
});
