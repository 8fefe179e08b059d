// Tenants learn nothing of one another's prompts: neither from cached tokens nor from times nor from targets.
import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import path from 'node:path';
import {describe, test} from 'node:test';

import {SLOW, randomSource, target, upstreamOf} from './support/relay.js';
import {
  HYBRID_CACHE,
  ask,
  bearer,
  explain,
  folderOf,
  holdings,
  ids,
  keysOf,
  mocksOf,
  replicas,
  routerOf,
  sum,
} from './support/routing.js';
import {mannWhitney, twoShares} from './support/statistics.js';
import {jsonReply} from './support/upstream.js';

const KEYS = {a1: 'a', a2: 'a', b1: 'b'};
const keyed = (more = {}) => (config, dir) => ({...config, auth: keysOf(KEYS, dir), ...more});

// A mock behind a recorder of what it is sent.
async function recordedMock(t) {
  const [mock] = await mocksOf(t, 1);
  return upstreamOf(t, async (request, socket) => {
    const answer = await mock.post(request.path, JSON.parse(request.body));
    socket.write(jsonReply(await answer.json()));
  });
}
const recorded = (upstream) => ({...target(upstream), cache: HYBRID_CACHE});
const lastSalt = (upstream) => JSON.parse(upstream.requests.at(-1).body).cache_salt;

describe('tenants: caches apart', {timeout: 60_000}, () => {
  // Whether b1 and a2 share with a1.
  for (const [sharing, [other, own]] of Object.entries({
    tenant: [false, true],
    key: [false, false],
    site: [true, true],
  })) {
    test(`sharing: ${sharing}`, async (t) => {
      const upstream = await recordedMock(t);
      const weir = await routerOf(t, [recorded(upstream)], keyed({routing: {sharing}}));
      const prompt = ids(1, 1_000);
      const first = await ask(weir, prompt, {}, bearer('a1'));
      const salt = lastSalt(upstream);
      assert.deepEqual([first.predicted, first.cached], [0, 0]);
      assert.deepEqual(await holdings(weir, prompt, {key: 'a1'}), [[960, 960, 'predicted']]);
      for (const [key, shares] of [['b1', other], ['a2', own]]) {
        const [held] = await holdings(weir, prompt, {key});
        assert.deepEqual(held.slice(0, 2), shares ? [960, 960] : [0, 0], `explained to ${key}`);
        const got = await ask(weir, prompt, {}, bearer(key));
        assert.deepEqual([got.predicted, got.cached], shares ? [960, 960] : [0, 0], key);
        assert.equal(lastSalt(upstream) === salt, shares, key);
      }
      const again = await ask(weir, prompt, {}, bearer('b1'));
      assert.deepEqual([again.predicted, again.cached], [960, 960]);
    });
  }

  test('nobody can name a foreign salt or tenant (J6, J7, J8)', async (t) => {
    const upstream = await recordedMock(t);
    const weir = await routerOf(t, [recorded(upstream)], keyed());
    const prompt = ids(2, 1_000);
    await ask(weir, prompt, {}, bearer('a1'));
    const salt = lastSalt(upstream);
    const tries = [
      [{cache_salt: salt}, {}],
      [{cache_salt: 'tenant:a'}, {}],
      [{cache_salt: 'a', tenant: 'a', key: 'a1'}, {}],
      [{user: 'a', metadata: {tenant: 'a'}}, {'x-tenant': 'a', 'x-weir-tenant': 'a', 'x-cache-salt': salt}],
      [{prompt_cache_key: 'a1'}, {'session-id': 'a', 'x-session-affinity': 'a'}],
    ];
    for (const [i, [fields, headers]] of tries.entries()) {
      const fresh = i < 3; // a salt of one's own is a scope of one's own; without, b's own prompt is known
      const got = await ask(weir, prompt, fields, {...headers, ...bearer('b1')});
      if (fresh || i === 3) assert.deepEqual([got.predicted, got.cached], [0, 0], JSON.stringify(fields));
      assert.notEqual(lastSalt(upstream), salt);
      assert.ok(!String(upstream.requests.at(-1).head).includes(salt), 'a salt in the head');
    }
    const {candidates} = await explain(weir, prompt, {key: 'a1'}, {cache_salt: salt});
    assert.equal(candidates[0].page_tokens, 0);
  });

  test('salts are told to nobody but targets', async (t) => {
    const upstream = await recordedMock(t);
    const dir = folderOf();
    const more = {routing: {state_dir: dir}, log: {access: true, level: 'debug'}};
    const weir = await routerOf(t, [recorded(upstream)], keyed(more));
    const told = [];
    for (const key of Object.keys(KEYS)) {
      for (const fields of [{}, {cache_salt: 'narrow'}, {cache_salt: 7}]) {
        const body = {model: 'fox', prompt: ids(3, 400), max_tokens: 2, ...fields};
        const answer = await weir.post('/v1/completions', body, bearer(key));
        told.push(JSON.stringify([...answer.headers]), await answer.text());
        told.push(JSON.stringify(await explain(weir, body.prompt, {key}, {cache_salt: 'narrow'})));
      }
    }
    told.push(weir.log, weir.out, await (await fetch(`${weir.admin}/metrics`)).text());
    const salts = new Set(upstream.requests.map((request) => JSON.parse(request.body).cache_salt));
    assert.equal(salts.size, 4); // of each tenant, with and without the narrow one
    const site = readFileSync(path.join(dir, 'salt'));
    const secrets = [...salts, site.toString('latin1'), site.toString('hex'), site.toString('base64')];
    const text = told.join('\n');
    for (const secret of secrets) assert.ok(!text.includes(secret.trim()), `told: ${secret}`);
    for (const key of Object.keys(KEYS)) assert.match(text, new RegExp(`"key":"${key}"`));
  });
});

const SAMPLES = SLOW ? 200 : 2_000;
const CONTROL_SAMPLES = 200;
const PROMPT_BYTES = 8_000;
const P_MIN = 0.01;

// Tenant a sends a prompt, then b one: the same (`true`) or another, by a fair coin. What b sees, per coin.
async function observe(weir, samples, seed) {
  const random = randomSource(seed);
  const text = (i, who) => `${i}${who}${seed} `.repeat(PROMPT_BYTES).slice(0, PROMPT_BYTES);
  const send = async (prompt, key) => {
    const body = JSON.stringify({model: 'fox', prompt, max_tokens: 1});
    const begun = performance.now();
    const answer = await weir.post('/v1/completions', body, bearer(key));
    const reply = await answer.text();
    const took = performance.now() - begun;
    assert.equal(answer.status, 200, reply);
    const {cached_tokens: cached} = JSON.parse(reply).usage.prompt_tokens_details;
    return {took, cached, id: answer.headers.get('x-request-id')};
  };
  const rows = [];
  for (let i = 0; i < samples; ++i) {
    const same = random(2) === 1;
    const a = await send(text(i, same ? 'b' : 'a'), 'a1');
    rows.push({same, a, b: await send(text(i, 'b'), 'b1')});
  }
  const targets = {};
  for (const line of weir.log.split('\n').filter((row) => row.startsWith('{"time"'))) {
    const {request_id: id, target: name} = JSON.parse(line);
    targets[id] = name;
  }
  return [true, false].map((same) =>
    rows
      .filter((row) => row.same === same)
      .map(({a, b}) => ({took: b.took, cached: b.cached, met: targets[a.id] === targets[b.id]})),
  );
}

async function compare(t, routing, samples, seed) {
  const rate = 1_000_000; // the prompt's prefill takes 2 ms, which would be seen
  const mocks = await mocksOf(t, 2, {tokens: 1, 'prefill-tokens-per-s': rate});
  const weir = await routerOf(t, replicas(mocks), keyed({routing}));
  await observe(weir, 20, seed + 1_000); // connections, caches of the processor
  const [same, other] = await observe(weir, samples, seed);
  const met = (rows) => rows.filter((row) => row.met).length;
  const p = {
    ttft: mannWhitney(same.map((row) => row.took), other.map((row) => row.took)),
    target: twoShares(met(same), same.length, met(other), other.length),
  };
  const said = `p of TTFT ${p.ttft.toPrecision(3)}, of the target ${p.target.toPrecision(3)}`;
  t.diagnostic(`sharing ${routing.sharing}, seed ${seed}, ${samples} samples: ${said}`);
  return {p, cached: sum([...same, ...other].map((row) => row.cached))};
}

describe('tenants: a statistical test', {timeout: 600_000}, () => {
  test('a prompt that another tenant sent before is like one that nobody did', async (t) => {
    // Chance alone gives p < 0.01 in one of a hundred; what is no chance gives it again.
    let least;
    for (const seed of [1, 2]) {
      const {p, cached} = await compare(t, {sharing: 'tenant'}, SAMPLES, seed);
      assert.equal(cached, 0);
      least = Math.min(p.ttft, p.target);
      if (least > P_MIN) return;
    }
    assert.fail(`p ${least}, twice`);
  });

  test('the test sees what tenants that share let through', async (t) => {
    const {p, cached} = await compare(t, {sharing: 'site'}, CONTROL_SAMPLES, 3);
    assert.ok(cached > 0);
    assert.ok(p.ttft < 1e-6 && p.target < 1e-6, JSON.stringify(p));
  });
});
