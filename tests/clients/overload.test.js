// More than the targets can serve: who waits, who is told to come back, and what the others notice of it.
import assert from 'node:assert/strict';
import {writeFileSync} from 'node:fs';
import path from 'node:path';
import {describe, test} from 'node:test';

import {loadOf} from './support/loadtest.js';
import {Raw, eventually} from './support/raw.js';
import {NAME, SLOW, chatBody, counts, inParallel, relayOf, target, upstreamOf} from './support/relay.js';
import {bearer, folderOf, keysOf, mocksOf} from './support/routing.js';
import {chatReply, isProbe, jsonReply, sleep} from './support/upstream.js';

const shed = (weir) => counts(weir, 'weir_requests_shed_total', 'why');
const waiting = async (weir) => (await weir.metric(/^weir_requests_waiting /))[0];

// One target that runs `connections` requests at once and answers when told to.
async function gateOf(t, {connections = 1, overload = {}, keys, routing = {}, limits = {}, http = {}} = {}) {
  const held = [];
  const upstream = await upstreamOf(t, (request, socket) => {
    if (isProbe(request)) return void socket.write(jsonReply({}));
    held.push(() => socket.write(jsonReply(chatReply('Nairobi'))));
  });
  const weir = await relayOf(t, [target(upstream, {connections, ...http})], (config, dir) => ({
    ...config,
    overload,
    routing,
    limits: {...config.limits, ...limits},
    ...(keys ? {auth: keysOf(keys, dir)} : {}),
  }));
  const post = (key) => weir.post('/v1/chat/completions', chatBody(), key ? bearer(key) : {});
  const answers = async (count) => {
    for (; count > 0; --count) {
      await eventually('a request at the target', async () => held.length > 0);
      held.shift()();
    }
  };
  const waits = (count) => eventually(`${count} that wait`, async () => (await waiting(weir)) === count);
  return {weir, post, answers, waits, held};
}

async function refused(answer) {
  const {error} = await answer.json();
  assert.equal(answer.status, 503, JSON.stringify(error));
  assert.match(error.message, /too many requests wait|got free in time/);
  const seconds = Number(answer.headers.get('retry-after'));
  assert.ok(seconds >= 1 && seconds <= 60, `retry-after: ${seconds}`);
  assert.equal(answer.headers.get('x-should-retry'), null);
}

describe('overload: who waits', {timeout: 120_000}, () => {
  test('a request waits for a target that runs as many as it takes', async (t) => {
    const gate = await gateOf(t);
    const all = [gate.post(), gate.post(), gate.post()];
    await gate.waits(2);
    await gate.answers(3);
    for (const answer of await Promise.all(all)) assert.equal(answer.status, 200);
    assert.equal(await waiting(gate.weir), 0);
    assert.deepEqual(await shed(gate.weir), {});
  });

  test('with no room to wait in a busy target refuses at once', async (t) => {
    const gate = await gateOf(t, {overload: {waiting: 0}});
    const first = gate.post();
    await eventually('the first is there', async () => gate.held.length === 1);
    const second = await gate.post();
    assert.equal(second.status, 503);
    await second.arrayBuffer();
    await gate.answers(1);
    assert.equal((await first).status, 200);
  });

  test('a full queue refuses the next one of the same kind with the time to come back', async (t) => {
    const gate = await gateOf(t, {overload: {waiting: 2}});
    const all = [gate.post(), gate.post(), gate.post()];
    await gate.waits(2);
    await refused(await gate.post());
    assert.equal((await shed(gate.weir)).queue_full, 1);
    await gate.answers(3);
    for (const answer of await Promise.all(all)) assert.equal(answer.status, 200);
  });

  test('batch leaves a full queue for others, a lower class for a higher one, nobody for a lower one', async (t) => {
    const of = (priority) => ({tenant: priority, priority});
    const keys = {batch: of('batch'), low: of('low'), normal: of('normal'), high: of('high')};
    const gate = await gateOf(t, {overload: {waiting: 2}, keys});
    const running = gate.post('normal');
    await eventually('the first is there', async () => gate.held.length === 1);
    const batch = gate.post('batch');
    await gate.waits(1);
    const low = gate.post('low');
    await gate.waits(2);
    const normal = gate.post('normal');
    await refused(await batch);
    const high = gate.post('high');
    await refused(await low);
    await refused(await gate.post('low'));
    await gate.answers(3);
    for (const answer of [running, normal, high]) assert.equal((await answer).status, 200);
    assert.equal((await shed(gate.weir)).queue_full, 3);
  });

  test('a tenant that floods the queue makes room for another', async (t) => {
    const gate = await gateOf(t, {overload: {waiting: 3}, keys: {a: 'flood', b: 'other'}});
    const running = gate.post('a');
    await eventually('the first is there', async () => gate.held.length === 1);
    const flood = [];
    for (let i = 1; i <= 3; ++i) {
      flood.push(gate.post('a'));
      await gate.waits(i);
    }
    const other = gate.post('b');
    await refused(await flood.pop()); // the newest
    await gate.answers(4);
    for (const answer of [running, other, ...flood]) assert.equal((await answer).status, 200);
  });

  test('two models share the places of one target', async (t) => {
    let running = 0;
    let most = 0;
    const upstream = await upstreamOf(t, (request, socket) => {
      if (isProbe(request)) return void socket.write(jsonReply({}));
      most = Math.max(most, ++running);
      setTimeout(() => {
        --running;
        socket.write(jsonReply(chatReply('Nairobi')));
      }, 5);
    });
    const weir = await relayOf(t, [target(upstream, {connections: 4})], (config) => ({
      ...config,
      io_threads: 2,
      models: [...config.models, {name: 'cat', targets: ['r1']}],
    }));
    const statuses = {};
    await inParallel(Array.from({length: 300}, (_, i) => (i % 2 === 0 ? NAME : 'cat')), 40, async (model) => {
      const answer = await weir.post('/v1/chat/completions', {...chatBody(), model});
      await answer.arrayBuffer();
      statuses[answer.status] = (statuses[answer.status] ?? 0) + 1;
    });
    assert.deepEqual(statuses, {200: 300});
    assert.ok(most <= 4, `${most} at once`);
  });

  test('a client that does not read holds no place', async (t) => {
    const text = 'x'.repeat(12 << 20);
    let large = true;
    const upstream = await upstreamOf(t, (request, socket) => {
      socket.write(jsonReply(chatReply(large ? text : 'Nairobi')));
      large = false;
    });
    const weir = await relayOf(t, [target(upstream, {connections: 1})]);
    const idle = await Raw.connect(weir.url);
    t.after(() => idle.drop());
    const body = JSON.stringify(chatBody());
    idle.socket.pause();
    idle.send(`POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
    await eventually('the large answer is there', async () => !large);
    await sleep(300);
    const answer = await Promise.race([weir.post('/v1/chat/completions', chatBody()), sleep(5_000)]);
    idle.drop();
    assert.equal(answer?.status, 200);
  });

  test('a client that leaves gives its place back', async (t) => {
    const gate = await gateOf(t, {overload: {waiting: 1}});
    const running = gate.post();
    await eventually('the first is there', async () => gate.held.length === 1);
    const leaves = new AbortController();
    const gone = fetch(`${gate.weir.url}/v1/chat/completions`, {
      method: 'POST',
      headers: {'content-type': 'application/json'},
      body: JSON.stringify(chatBody()),
      signal: leaves.signal,
    }).catch(() => {});
    await gate.waits(1);
    leaves.abort();
    await gone;
    await gate.waits(0);
    const next = gate.post();
    await gate.waits(1);
    await gate.answers(2);
    for (const answer of [running, next]) assert.equal((await answer).status, 200);
  });

  test('nobody waits beyond the time for a first token', async (t) => {
    const limits = {request_timeout_ms: 900, first_token_timeout_ms: 900};
    const gate = await gateOf(t, {limits, http: {request_timeout_ms: 3_000}});
    const running = gate.post();
    await eventually('the first is there', async () => gate.held.length === 1);
    const second = await gate.post();
    await refused(second);
    const {hopeless = 0, timed_out = 0} = await shed(gate.weir);
    assert.equal(hopeless + timed_out, 1);
    await gate.answers(1);
    assert.equal((await running).status, 200);
  });
});

describe('overload: five times what the replicas do', {timeout: 240_000, skip: SLOW}, () => {
  const REPLICAS = 4;
  const PREFILL_MS = 200; // of each request, one after another
  const PEAK = (REPLICAS * 1_000) / PREFILL_MS;
  const PROMPT_TOKENS = 1_000;

  test('goodput stays, those that are admitted are served in time, and it is over at once', async (t) => {
    const mocks = await mocksOf(t, REPLICAS, {
      'prefill-tokens-per-s': (PROMPT_TOKENS * 1_000) / PREFILL_MS,
      'capacity-tokens': PROMPT_TOKENS + 100, // nothing is found again
      retention: 'dense',
    });
    const targets = mocks.map((mock, i) => ({
      name: `r${i + 1}`,
      http: {base_url: `${mock.url}/v1`},
      speed: {prefill_tokens_per_s: (PROMPT_TOKENS * 1_000) / PREFILL_MS},
    }));
    const weir = await relayOf(t, targets, (config) => ({
      ...config,
      overload: {wait_ms: 300},
      routing: {hold_ms: 100},
    }));
    const prompts = path.join(folderOf(), 'prompts');
    const line = (_, i) => `${i} `.padEnd(PROMPT_TOKENS * 4 - 10, 'lorem ipsum ');
    writeFileSync(prompts, Array.from({length: 50}, line).join('\n'));

    const args = ['--prompts', prompts, '--max-tokens', '2'];
    const before = await loadOf(weir, NAME, PEAK * 0.6, 20, args);
    const during = await loadOf(weir, NAME, PEAK * 5, 30, args);
    await sleep(2_000);
    const after = await loadOf(weir, NAME, PEAK * 0.6, 10, args);
    const goodput = during.completed / during.duration;
    const say = (what, {completed, failed, p99_ttft_ms: p99}) => `${what} ${completed} done, ${failed} refused, p99 TTFT ${p99?.toFixed(0)} ms`;
    t.diagnostic(`goodput ${goodput.toFixed(1)} of ${PEAK} a second; ${say('before', before)}; ${say('during', during)}; ${say('after', after)}`);
    assert.equal(before.failed, 0);
    assert.ok(during.failed > 0);
    assert.ok(goodput >= 0.9 * PEAK, `${goodput} of ${PEAK} a second`);
    assert.ok(during.p99_ttft_ms <= 2 * before.p99_ttft_ms, `${during.p99_ttft_ms} after ${before.p99_ttft_ms} ms`);
    assert.equal(after.failed, 0);
    assert.ok(after.p99_ttft_ms <= 1.5 * before.p99_ttft_ms, `${after.p99_ttft_ms} after ${before.p99_ttft_ms} ms`);
  });
});
