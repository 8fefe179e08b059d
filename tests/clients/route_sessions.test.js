// What clients call their conversations informs the choice of a target and never overrides it.
import assert from 'node:assert/strict';
import {describe, test} from 'node:test';

import {eventually} from './support/raw.js';
import {
  HYBRID_CACHE,
  ask,
  bearer,
  explain,
  ids,
  keysOf,
  mocksOf,
  replicas,
  routerOf,
  sum,
} from './support/routing.js';

const RATE = 20_000;
const SPEED = {speed: {prefill_tokens_per_s: RATE, ttft_base_ms: 1}};
const keyed = (config, dir) => ({...config, auth: keysOf({a: 't1', b: 't1', c: 't2'}, dir)});

// Mocks, and them as replicas whose caches no index sees, but for those with `cache`.
async function fleet(t, count, cache) {
  const mocks = await mocksOf(t, count, {'prefill-tokens-per-s': RATE});
  return [replicas(mocks, cache, {...SPEED, cache}), mocks];
}

describe('sessions that clients name', {timeout: 120_000}, () => {
  const ways = {
    prompt_cache_key: (name) => [{prompt_cache_key: name}, {}],
    'session-id': (name) => [{}, {'session-id': name}],
    'x-session-affinity': (name) => [{}, {'x-session-affinity': name}],
    'x-session-id': (name) => [{}, {'x-session-id': name}],
  };
  for (const [way, naming] of Object.entries(ways)) {
    test(`${way} brings a session back to its target where no index sees`, async (t) => {
      const weir = await routerOf(t, (await fleet(t, 4))[0]);
      const used = new Map();
      for (let turn = 0; turn < 4; ++turn) {
        for (const [i, name] of ['s1', 's2', 's3', 's4', 's5'].entries()) {
          const got = await ask(weir, ids(turn * 10 + i, 2_000), ...naming(name));
          used.set(name, [...(used.get(name) ?? []), got.target]);
        }
      }
      for (const [name, targets] of used) assert.equal(new Set(targets).size, 1, `${name}: ${targets}`);
      const all = new Set([...used.values()].flat());
      t.diagnostic(`5 sessions of 4 turns on ${all.size} of 4 targets`);
      assert.ok(all.size >= 2, 'sessions of other names gather nowhere');
    });
  }

  test('a session whose target is busy goes elsewhere', async (t) => {
    const [targets, mocks] = await fleet(t, 2);
    const weir = await routerOf(t, targets);
    const {target: home} = await ask(weir, ids(1, 400), {prompt_cache_key: 's'});
    const long = ask(weir, ids(2, 40_000), {prompt_cache_key: 's'});
    const running = () => Promise.all(mocks.map((mock) => mock.metric('vllm:num_requests_running')));
    await eventually('the long one to run', async () => sum(await running()) === 1);
    const {target: away} = await ask(weir, ids(3, 400), {prompt_cache_key: 's'});
    assert.equal((await long).target, home);
    assert.notEqual(away, home);
  });

  test('what an index knows counts more than a name', async (t) => {
    const weir = await routerOf(t, (await fleet(t, 3, HYBRID_CACHE))[0]);
    const prompt = ids(1, 4_000);
    const {target: holder} = await ask(weir, prompt);
    for (let i = 0; i < 20; ++i) {
      const {target: other} = await ask(weir, ids(50 + i, 400), {prompt_cache_key: `s${i}`});
      if (other === holder) continue;
      const got = await ask(weir, [...prompt, 7, 8, 9], {prompt_cache_key: `s${i}`});
      assert.equal(got.target, holder);
      return;
    }
    assert.fail('20 sessions came to one target of three');
  });

  test('equal names of other keys and tenants are other sessions', async (t) => {
    const weir = await routerOf(t, (await fleet(t, 3))[0], keyed);
    await ask(weir, ids(1, 2_000), {prompt_cache_key: 's'}, bearer('a'));
    const evidence = async (key) =>
      (await explain(weir, ids(2, 2_000), {key}, {prompt_cache_key: 's'})).candidates.map((c) => c.evidence);
    assert.deepEqual((await evidence('a')).sort(), ['none', 'none', 'session']);
    for (const key of ['b', 'c']) assert.deepEqual(await evidence(key), ['none', 'none', 'none'], key);
  });

  test('names that are no text or too long are passed on and mean nothing', async (t) => {
    const weir = await routerOf(t, (await fleet(t, 3))[0]);
    for (const name of ['', 'x'.repeat(513), 7, null, ['s'], {s: 1}]) {
      await ask(weir, ids(1, 300), {prompt_cache_key: name});
      const said = await explain(weir, ids(2, 300), {}, {prompt_cache_key: name});
      assert.ok(said.candidates.every((c) => c.evidence === 'none'), JSON.stringify(name));
    }
  });
});
