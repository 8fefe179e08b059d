// Tagged echo: many clients over few connections, each request with a nonce of its own that its reply must
// repeat. Three in ten leave at a random point, one upstream attempt in ten ends in a reset. No reply may
// carry another's nonce, none may come twice, and no connection may carry what is left of another exchange.
import assert from 'node:assert/strict';
import {after, before, describe, test} from 'node:test';

import {CHAT, Client, requestBytes} from './support/client.js';
import {eventually} from './support/raw.js';
import {NAME, assertFailed, attempts, inParallel, randomSource, startRelay, target} from './support/relay.js';
import * as up from './support/upstream.js';
import {user} from './support/weir.js';

const CLIENTS = 64;
const REQUESTS = Number(process.env.WEIR_ECHO_REQUESTS ?? 3000);
const SEED = Number(process.env.WEIR_ECHO_SEED ?? 20_260_404);
const CANCELLED_OF_10 = 3;
const RESET_OF_10 = 1;
const WORDS = 6;

let upstream;
let weir;
before(async () => {
  upstream = await up.Upstream.start();
  weir = await startRelay([target(upstream)], (config) => ({...config, io_threads: 2, log: {access: false}}));
});
after(async () => {
  await weir.stop();
  await upstream.stop();
});

// The bytes of the reply to a nonce: every event and every part of the body names it.
function replyTo(nonce, stream) {
  if (!stream) return up.jsonReply(up.chatReply(`<${nonce}>`.repeat(WORDS), {id: nonce}));
  return up.sse(up.chatEvents(Array(WORDS).fill(`<${nonce}>`)));
}
const payloadOf = (nonce, usage) =>
  up
    .chatEvents(Array(WORDS).fill(`<${nonce}>`), {usage})
    .map((value) => up.event(value))
    .join('');

// Echoes in random pieces; a tenth of all attempts is reset at a random byte. Remembers whose.
function echo(random, met) {
  return async (request, socket) => {
    const {nonce, stream} = JSON.parse(request.body);
    met.seen.set(nonce, (met.seen.get(nonce) ?? 0) + 1);
    const bytes = replyTo(nonce, stream);
    const broken = random(10) < RESET_OF_10;
    const limit = broken ? random(bytes.length) * (random(3) > 0) : bytes.length;
    if (broken) met.reset.set(nonce, {limit, reused: request.index > 0});
    for (let at = 0; at < limit && socket.writable;) {
      const size = Math.min(1 + random(400), limit - at);
      socket.write(bytes.subarray(at, at + size));
      at += size;
      if (random(3) === 0) await up.tick();
      if (random(20) === 0) await up.sleep(random(4));
    }
    if (broken) up.reset(socket);
  };
}

const nonces = (text) => [...text.matchAll(/<([\w-]+)>/g)].map(([, nonce]) => nonce);

// Leaves at a random point: in the request, right behind it, some bytes or some time into the reply.
async function leaveSomewhere(client, reply, {part, random}) {
  const wanted = random(1500);
  const point = random(part ? 2 : 3);
  if (point === 1) await Promise.race([up.sleep(random(8)), reply.end]);
  if (point === 2)
    await reply.until(() => reply.parts.reduce((sum, part) => sum + part.bytes.length, 0) >= wanted);
  if (random(2) === 0) client.leave();
  else client.socket.resetAndDestroy();
}

function checkReply(reply, nonce, asked, met, tally) {
  const what = `${nonce} ${reply.status} ${reply.ended}`;
  tally.foreign += nonces(reply.text).filter((seen) => seen !== nonce).length;
  const reset = met.reset.get(nonce);
  if (reply.status === 200 && reply.ended === 'complete') {
    ++tally.whole;
    if (asked.stream) assert.equal(reply.text, payloadOf(nonce, asked.usage), what);
    else assert.equal(reply.json.id, nonce);
    return;
  }
  assert.ok(reset, `${what}: a failure without a reset: ${reply.text.slice(0, 200)}`);
  ++tally.broken;
  if (reply.status !== 200) return void assertFailed(reply, 502, 'upstream_failed', what);
  assert.ok(asked.stream && reply.ended === 'aborted', what);
  assert.ok(reply.text.includes('"stream_interrupted"') && !reply.text.includes('[DONE]'), what);
}

describe('tagged echo', {timeout: 3_600_000}, () => {
  test(`${CLIENTS} connections, ${REQUESTS} requests (seed ${SEED})`, async () => {
    const met = {seen: new Map(), reset: new Map()};
    const random = randomSource(SEED);
    upstream.script(echo(randomSource(SEED + 1), met));
    const tally = {foreign: 0, whole: 0, broken: 0, cancelled: 0, stray: 0};
    const lanes = Array.from({length: CLIENTS}, () => ({client: null}));
    let next = 0;
    await inParallel(lanes, CLIENTS, async (lane) => {
      while (next < REQUESTS) {
        const nonce = `n-${next++}`;
        if (!lane.client?.open) lane.client = await Client.connect(weir.url);
        const {client} = lane;
        const asked = {stream: random(2) === 0, usage: random(2) === 0};
        const options = asked.stream && asked.usage ? {stream_options: {include_usage: true}} : {};
        const body = {model: NAME, messages: [user(`say ${nonce}`)], nonce, stream: asked.stream, ...options};
        const bytes = requestBytes(body, {route: CHAT});
        const reply = client.expect();
        if (random(10) < CANCELLED_OF_10) {
          ++tally.cancelled;
          const part = random(4) === 0;
          client.socket.write(part ? bytes.subarray(0, random(bytes.length)) : bytes);
          await leaveSomewhere(client, reply, {part, random});
          await client.closed;
          tally.foreign += nonces(reply.text).filter((seen) => seen !== nonce).length;
        } else {
          client.socket.write(bytes);
          await reply.end;
          checkReply(reply, nonce, asked, met, tally);
          if (reply.ended === 'aborted') await client.closed;
        }
        tally.stray += client.stray.length;
        client.stray = [];
      }
    });
    for (const {client} of lanes) client?.leave();
    console.log(
      JSON.stringify({...tally, connections: upstream.connections.length, attempts: await attempts(weir)}),
    );
    assert.equal(tally.foreign, 0, 'foreign nonces');
    assert.equal(tally.stray, 0, 'bytes that belong to no reply');
    assert.deepEqual(upstream.malformed, [], 'dirty connections');
    for (const [nonce, times] of met.seen) assert.ok(times <= 2, `${nonce} went upstream ${times} times`);
    const again = [...met.seen].filter(([nonce, times]) => times > 1 && !met.reset.has(nonce));
    assert.deepEqual(again, [], 'sent again without a failure');
    assert.ok(tally.whole > REQUESTS / 2 && tally.broken > 0);
  });

  test('afterwards nothing is in flight and nothing is held', async () => {
    await eventually('idle', async () => (await weir.metric(/^weir_requests_in_flight/))[0] === 0);
    await eventually('pooled connections gone', () => upstream.open === 0);
    await eventually('no body held', async () => (await weir.metric(/^weir_body_bytes/))[0] === 0);
    assert.doesNotMatch(weir.log, /fault/);
  });
});
