// A second target gets the request too while the first has no content (failover.hedge_after_ms): the client sees
// one answer, the loser is cancelled, and what second targets cost stays within a share.
import assert from 'node:assert/strict';
import {describe, test} from 'node:test';

import {ask, start} from './support/client.js';
import {PRICE, limited, withKeys} from './support/limits.js';
import {eventually} from './support/raw.js';
import {
  CANCEL_MS,
  SLOW,
  assertStream,
  chatBody,
  logLine,
  relayOf,
  streamBody,
  target,
  upstreamOf,
} from './support/relay.js';
import {bearer} from './support/routing.js';
import * as up from './support/upstream.js';

const HEDGE_MS = SLOW ? 1000 : 100;
const OK_EVENTS = up.chatEvents(['a ', 'b'], {usage: false});
const OK_STREAM = OK_EVENTS.map((value) => up.event(value)).join('');
const answers = (request, socket) =>
  socket.write(JSON.parse(request.body).stream ? up.sse(OK_EVENTS) : up.jsonReply(up.chatReply()));
const hangs = () => {};
const preamble = (socket) =>
  socket.write(up.head(200, {...up.SSE_FIELDS, 'transfer-encoding': 'chunked'}) + up.chunk(up.event(up.PREAMBLE)));

// Two targets: whichever is asked first does `first`, whichever is second does `second`.
async function pairOf(t, first, second, {failover = {}, keys, targets = 2} = {}) {
  const requests = [];
  const handler = (request, socket) => {
    if (up.isProbe(request)) return socket.write(up.jsonReply({}));
    requests.push(request);
    return (requests.length === 1 ? first : second)(request, socket);
  };
  const upstreams = [];
  for (let i = 0; i < targets; ++i) upstreams.push(await upstreamOf(t, handler));
  const weir = await relayOf(
    t,
    upstreams.map((upstream, i) => ({...target(upstream, {}, `r${i + 1}`), ...(keys && {price: PRICE})})),
    (config, dir) => {
      const changed = {...config, failover: {hedge_after_ms: HEDGE_MS, hedge_percent: 100, ...failover}};
      return keys ? withKeys(keys)(changed, dir) : changed;
    },
  );
  return {weir, requests};
}

const total = async (weir, name) => (await weir.metric(new RegExp(`^${name}( |\\{)`)))[0] ?? 0;
const hedges = async (weir) => ({
  begun: await total(weir, 'weir_request_hedges_total'),
  won: await total(weir, 'weir_request_hedges_won_total'),
  retries: await total(weir, 'weir_request_retries_total'),
});

describe('hedging', {timeout: 300_000}, () => {
  for (const [name, first] of Object.entries({
    'that says nothing': hangs,
    'that sends a preamble and hangs': (request, socket) => preamble(socket),
  })) {
    test(`a first target ${name}: the second answers, once and whole, and the first is cancelled`, async (t) => {
      const {weir, requests} = await pairOf(t, first, answers);
      const reply = await ask(weir, streamBody());
      assertStream(reply, OK_STREAM);
      assert.equal(requests.length, 2);
      const at = performance.now();
      assert.ok((await requests[0].closed) - at <= CANCEL_MS, 'the loser is left at once');
      assert.deepEqual(await hedges(weir), {begun: 1, won: 1, retries: 0});
      const line = await logLine(weir, reply);
      assert.equal(line.attempts, 2);
      assert.equal(line.hedged, true);
    });
  }

  test('a first target that is only late still wins when it is the first with content', async (t) => {
    const late = (request, socket) => setTimeout(() => answers(request, socket), HEDGE_MS * 3);
    const {weir, requests} = await pairOf(t, late, hangs);
    assertStream(await ask(weir, streamBody()), OK_STREAM);
    await requests[1].closed;
    assert.deepEqual(await hedges(weir), {begun: 1, won: 0, retries: 0});
  });

  test('a whole answer is hedged too', async (t) => {
    const {weir} = await pairOf(t, hangs, answers);
    const reply = await ask(weir, chatBody());
    assert.equal(reply.status, 200);
    assert.equal(reply.json.choices[0].message.content, up.chatReply().choices[0].message.content);
  });

  test('a quick first target is not hedged', async (t) => {
    const {weir, requests} = await pairOf(t, answers, answers);
    assertStream(await ask(weir, streamBody()), OK_STREAM);
    assert.equal(requests.length, 1);
    assert.deepEqual(await hedges(weir), {begun: 0, won: 0, retries: 0});
  });

  test('a first target that fails before its time is retried, not hedged', async (t) => {
    const {weir, requests} = await pairOf(t, (request, socket) => up.reset(socket), answers);
    assertStream(await ask(weir, streamBody()), OK_STREAM);
    assert.equal(requests.length, 2);
    assert.deepEqual(await hedges(weir), {begun: 0, won: 0, retries: 1});
  });

  test('one that fails while the other runs leaves the answer to the other, whichever it is', async (t) => {
    const laterFails = (request, socket) => setTimeout(() => up.reset(socket), HEDGE_MS * 2);
    const late = (request, socket) => setTimeout(() => answers(request, socket), HEDGE_MS * 4);
    for (const [first, second] of [[laterFails, late], [late, (request, socket) => up.reset(socket)]]) {
      const {weir, requests} = await pairOf(t, first, second);
      assertStream(await ask(weir, streamBody()), OK_STREAM);
      assert.equal(requests.length, 2);
    }
  });

  test('when both fail the client gets one error', async (t) => {
    const laterFails = (request, socket) => setTimeout(() => up.reset(socket), HEDGE_MS * 2);
    const {weir} = await pairOf(t, laterFails, laterFails);
    const reply = await ask(weir, streamBody());
    assert.equal(reply.status, 502);
    assert.ok(reply.json.error.message);
  });

  test('a client that leaves ends both', async (t) => {
    const {weir, requests} = await pairOf(t, hangs, hangs);
    const running = await start(weir, streamBody());
    await eventually('both to be asked', () => requests.length === 2);
    running.client.leave();
    const at = performance.now();
    for (const request of requests) assert.ok((await request.closed) - at <= CANCEL_MS);
  });

  test('with one target, off by default, and beyond its share there is none', async (t) => {
    const late = (request, socket) => setTimeout(() => answers(request, socket), HEDGE_MS * 2);
    for (const [what, options] of Object.entries({
      'one target': {targets: 1},
      off: {failover: {hedge_after_ms: 0}},
      'no share': {failover: {hedge_percent: 0}},
      'a key with a budget': {keys: {a: limited({usd_per_day: 1000})}},
    })) {
      const {weir, requests} = await pairOf(t, late, late, options);
      const reply = await ask(weir, streamBody(), {headers: options.keys ? bearer('a') : {}});
      assert.equal(reply.status, 200, what);
      assert.equal(requests.length, 1, what);
    }
  });

  test('second targets cost at most their share of all requests', async (t) => {
    const late = (request, socket) => setTimeout(() => answers(request, socket), HEDGE_MS * 2);
    const {weir, requests} = await pairOf(t, late, late, {failover: {hedge_percent: 10}});
    const all = 60;
    await Promise.all(Array.from({length: all}, () => ask(weir, streamBody())));
    const {begun} = await hedges(weir);
    assert.equal(await total(weir, 'weir_request_hedges_denied_total'), all - begun);
    assert.ok(begun > 0 && begun <= all / 10, `${begun} of ${all}`);
    assert.equal(requests.length, all + begun);
  });
});
