// What clients notice of copies: nothing. A shadow target that hangs, is slow, fails or gets ten times what it takes
// changes neither an answer nor, within what one machine can measure, its time. The bound is generous, so that a busy
// machine does not fail it; the true figures are printed.
import assert from 'node:assert/strict';
import {describe, test} from 'node:test';

import {eventually} from './support/raw.js';
import {bearer} from './support/routing.js';
import {chatBody} from './support/relay.js';
import {ALLOWED, WORDS, answer, askOnce, dropped, pairsOf, shadowed, total} from './support/shadow.js';
import {head, jsonReply, reset} from './support/upstream.js';

const ROUNDS = Number(process.env.WEIR_SHADOW_ROUNDS ?? 6);
const REQUESTS = Number(process.env.WEIR_SHADOW_REQUESTS ?? 100);
const SLACK_MS = Number(process.env.WEIR_SHADOW_SLACK_MS ?? 50);

const quantile = (values, q) => [...values].sort((a, b) => a - b)[Math.ceil(q * values.length) - 1];

async function timed(weir, key) {
  const begun = performance.now();
  const {status, text} = await askOnce(weir, key);
  assert.equal(status, 200, text);
  assert.match(text, /Nairobi/);
  assert.ok(text.endsWith('data: [DONE]\n\n'));
  return performance.now() - begun;
}

// Requests with and without copies in turn, so that whatever else the machine does meets both alike.
async function measure(weir, width) {
  const times = {on: [], off: []};
  for (let round = 0; round < ROUNDS; ++round) {
    for (const key of round % 2 === 0 ? ['on', 'off'] : ['off', 'on']) {
      let left = REQUESTS;
      const lane = async () => {
        while (left-- > 0) times[key].push(await timed(weir, key));
      };
      await Promise.all(Array.from({length: width}, lane));
    }
  }
  return times;
}

const KEYS = {on: ALLOWED, off: {tenant: 't'}};
const whole = answer(WORDS);
const CASES = [
  ['answers', (request, socket) => socket.write(whole), {}],
  ['hangs', () => {}, {}],
  ['reads nothing', (request, socket) => socket.pause(), {}],
  [
    'sends a byte now and then',
    (request, socket) => {
      let at = 0;
      const timer = setInterval(() => socket.writable && socket.write(whole.subarray(at, ++at)), 20);
      socket.on('close', () => clearInterval(timer));
    },
    {},
  ],
  ['fails', (request, socket) => socket.write(jsonReply({error: {message: 'no'}}, {status: 500})), {failures: 1000}],
  ['resets', (request, socket) => reset(socket), {failures: 1000}],
  ['sends without end', (request, socket) => {
    socket.write(head(200, {'content-type': 'text/event-stream', connection: 'close'}));
    const more = `data: {"choices":[{"index":0,"delta":{"content":"${'x'.repeat(1000)}"}}]}\n\n`.repeat(64);
    const pump = () => {
      while (socket.writable && socket.write(more));
    };
    socket.on('drain', pump);
    pump();
  }, {}],
  ['gets ten times what it takes', (request, socket) => setTimeout(() => socket.writable && socket.write(whole), 400), {load: 10}],
];

describe('clients notice nothing of a shadow target that', {timeout: 600_000}, () => {
  for (const [name, shadow, {failures = 5, load = 1}] of CASES) {
    test(name, async (t) => {
      const copy = {timeout_ms: 1000, in_flight: load > 1 ? 2 : 16, memory_bytes: '4MiB'};
      const more = {failover: {failures, open_ms: 500}};
      const {weir} = await shadowed(t, {shadow, copy, keys: KEYS, more});
      await measure(weir, 4); // connections, caches
      const {on, off} = await measure(weir, 4);
      const p99 = {on: quantile(on, 0.99), off: quantile(off, 0.99)};
      const sent = await total(weir, 'sent_total');
      t.diagnostic(
        `p99 ${p99.on.toFixed(2)} ms with copies, ${p99.off.toFixed(2)} ms without; p50 ${quantile(on, 0.5).toFixed(2)}, ` +
          `${quantile(off, 0.5).toFixed(2)}; ${sent} sent, dropped ${JSON.stringify(await dropped(weir))}`,
      );
      assert.ok(sent > 0);
      assert.ok(p99.on <= p99.off * 1.5 + SLACK_MS, JSON.stringify(p99));
    });
  }

  test('holds copies: their memory is bounded, and the rest is dropped', async (t) => {
    const {weir} = await shadowed(t, {shadow: () => {}, copy: {memory_bytes: '1MiB', body_bytes: '512KiB', timeout_ms: 60_000}});
    const content = 'x'.repeat(200_000);
    const answers = Array.from({length: 20}, () => askOnce(weir, 'a', {messages: [{role: 'user', content}]}));
    for (const {status} of await Promise.all(answers)) assert.equal(status, 200);
    await askOnce(weir, 'a', {messages: [{role: 'user', content: 'x'.repeat(600_000)}]});
    await eventually('all are counted', async () => {
      const {memory = 0, too_large = 0} = await dropped(weir);
      return memory + (await total(weir, 'in_flight')) === 20 && too_large === 1;
    });
    assert.ok((await total(weir, 'in_flight')) <= 1); // three stages of 200 KB and two answers of 64 KiB
  });

  test('is at work when weir stops: it stops at once', async (t) => {
    const {weir} = await shadowed(t, {shadow: () => {}, copy: {timeout_ms: 60_000}, more: {limits: {drain_grace_ms: 60_000}}});
    for (let i = 0; i < 5; ++i) await askOnce(weir);
    await eventually('copies are at work', async () => (await total(weir, 'in_flight')) === 5);
    const begun = performance.now();
    weir.child.kill('SIGTERM');
    const {code} = await weir.ended;
    const took = performance.now() - begun;
    t.diagnostic(`stopped in ${took.toFixed(0)} ms`);
    assert.equal(code, 0);
    assert.ok(took < 5000, `${took}`);
  });

  test('gets copies at its rate and no faster', async (t) => {
    const {weir, other} = await shadowed(t, {copy: {requests_per_s: 1}});
    const begun = performance.now();
    await Promise.all(Array.from({length: 30}, () => askOnce(weir)));
    await eventually('all are counted', async () => (await total(weir, 'sent_total')) + ((await dropped(weir)).rate ?? 0) === 30);
    const most = 1 + (performance.now() - begun) / 1000;
    assert.ok(other.requests.length >= 1 && other.requests.length <= most + 1, `${other.requests.length}`);
  });

  test('hears of a reload: another share, then none', async (t) => {
    const {weir, other} = await shadowed(t);
    await askOnce(weir);
    await pairsOf(weir, 1);
    const {shadow, ...rest} = weir.config;
    weir.configure({...rest, shadow: {...shadow, copies: []}});
    weir.child.kill('SIGHUP');
    await eventually('the reload', () => weir.log.includes('reloaded'));
    await weir.post('/v1/chat/completions', chatBody(), bearer('a')).then((response) => response.text());
    await eventually('nothing is at work', async () => (await total(weir, 'in_flight')) === 0);
    assert.equal(other.requests.length, 1);
  });
});
