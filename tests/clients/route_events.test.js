// What replicas publish of their caches is what the gateway goes by, through losses, restarts and nonsense.
import assert from 'node:assert/strict';
import {copyFileSync} from 'node:fs';
import path from 'node:path';
import {describe, test} from 'node:test';

import {eventually} from './support/raw.js';
import {
  DENSE_CACHE,
  HYBRID_CACHE,
  UNIT,
  ask,
  bearer,
  explain,
  flags,
  folderOf,
  holdings,
  ids,
  keysOf,
  mocksOf,
  replicas,
  routerOf,
  startMock,
} from './support/routing.js';
import {Tool} from './support/loadtest.js';

const FREE = {'kv-events': 'tcp://127.0.0.1:*', 'kv-replay': 'tcp://127.0.0.1:*'};
const CONFIRM_MS = 3_000;
const whole = (tokens) => Math.floor((tokens - 1) / UNIT) * UNIT;

const eventMocks = (t, count, fields = {}) => mocksOf(t, count, {...FREE, ...fields});
const listening = (mocks, cache = HYBRID_CACHE) =>
  replicas(mocks, cache).map((replica, i) => ({
    ...replica,
    cache: {...cache, events: mocks[i].events, replay: mocks[i].replay},
  }));

// Until the first target holds this much of the prompt by its own word. `nudge`: what to do meanwhile.
const confirmed = (weir, prompt, tokens, nudge = () => {}, who = {}) =>
  eventually(`${tokens} tokens confirmed`, async () => {
    const [held] = await holdings(weir, prompt, who);
    if (held[1] === tokens && held[2] === (tokens > 0 ? 'confirmed' : 'none')) return true;
    await nudge();
    return false;
  }, CONFIRM_MS);

describe('events: what replicas say', {timeout: 120_000}, () => {
  for (const [format, cache, retention] of [
    ['vllm-map', HYBRID_CACHE, 'second-sighting'],
    ['vllm-array', HYBRID_CACHE, 'second-sighting'],
    ['vllm-map', DENSE_CACHE, 'dense'],
    ['vllm-array', DENSE_CACHE, 'dense'],
    ['sglang', DENSE_CACHE, 'dense'],
  ]) {
    test(`${format}, ${retention}: confirmed, and promised exactly (K15)`, async (t) => {
      const flavor = format === 'sglang' ? 'sglang' : 'vllm';
      const mocks = await eventMocks(t, 1, {retention, 'kv-format': format, flavor});
      const weir = await routerOf(t, listening(mocks, cache));
      const root = ids(1, 1_000);
      const prompts = Array.from({length: 5}, (_, i) => [...root, ...ids(20 + i, 300 + 100 * i)]);
      for (const [i, prompt] of [...prompts, ...prompts].entries()) {
        const got = await ask(weir, prompt);
        assert.equal(got.predicted, got.cached, `request ${i}`);
        await confirmed(weir, prompt, whole(prompt.length));
      }
    });
  }

  for (const block of [16, 128]) {
    test(`pages of ${block} tokens, the unit is ${UNIT}`, async (t) => {
      const [mock] = await eventMocks(t, 1, {'block-tokens': block});
      const weir = await routerOf(t, listening([mock], {...HYBRID_CACHE, block_tokens: block}));
      const prompt = ids(1, 1_025);
      await ask(weir, prompt);
      await confirmed(weir, prompt, 1_024);
      const got = await ask(weir, [...prompt, ...ids(2, 100)]);
      assert.deepEqual([got.predicted, got.cached], [1_024, 1_024]);
    });
  }

  test('what others send to replicas that are declared shared is known too', async (t) => {
    const mocks = await eventMocks(t, 2);
    const weir = await routerOf(t, listening(mocks, {...HYBRID_CACHE, salted: false}));
    const prompt = ids(1, 2_000);
    await ask(weir, ids(3, 100)); // the streams are up
    await eventually('events of others', async () => {
      await mocks[1].post('/v1/completions', {model: 'fox', prompt});
      return (await holdings(weir, prompt))[1][2] === 'confirmed';
    }, CONFIRM_MS);
    const got = await ask(weir, prompt);
    assert.deepEqual([got.target, got.predicted, got.cached], ['r2', 1_984, 1_984]);
  });

  test('a cache that is reset is known to be empty', async (t) => {
    const mocks = await eventMocks(t, 1);
    const weir = await routerOf(t, listening(mocks));
    const prompt = ids(1, 1_000);
    await ask(weir, prompt);
    await confirmed(weir, prompt, 960);
    assert.equal((await mocks[0].post('/reset_prefix_cache', {})).status, 200);
    await confirmed(weir, prompt, 0);
    const got = await ask(weir, prompt);
    assert.deepEqual([got.predicted, got.cached], [0, 0]);
    await confirmed(weir, prompt, 960);
  });

  test('what a replica evicts is known to be gone', async (t) => {
    const mocks = await eventMocks(t, 1, {'capacity-tokens': 40_000, 'checkpoint-tokens': 5_000});
    const cache = {capacity_tokens: 40_000, checkpoint_tokens: 5_000};
    const weir = await routerOf(t, listening(mocks, cache));
    const prompts = Array.from({length: 8}, (_, i) => ids(i, 3_000));
    let gone = 0;
    for (let round = 0; round < 2; ++round) {
      for (const [i, prompt] of [...prompts, prompts[7]].entries()) {
        const got = await ask(weir, prompt);
        assert.equal(got.predicted, got.cached, `round ${round}, request ${i}`);
        gone += round === 1 && got.cached === 0 ? 1 : 0;
        await confirmed(weir, prompt, whole(3_000));
      }
    }
    assert.ok(gone > 0);
  });
});

describe('events: losses and restarts', {timeout: 120_000}, () => {
  test('one in ten batches lost, found by its gap and replayed (K9)', async (t) => {
    const mocks = await eventMocks(t, 1, {'kv-drop': 0.1});
    const weir = await routerOf(t, listening(mocks));
    const prompts = Array.from({length: 100}, (_, i) => ids(i, 200 + 7 * i));
    for (const prompt of prompts) await ask(weir, prompt);
    // The last batch may be lost, which the next one tells.
    let more = 1_000;
    const begun = performance.now();
    for (const prompt of prompts)
      await confirmed(weir, prompt, whole(prompt.length), () => ask(weir, ids(++more, 200)));
    const took = performance.now() - begun;
    t.diagnostic(`all 100 prompts confirmed ${took.toFixed(0)} ms and ${more - 1_000} requests later`);
    for (const prompt of prompts) {
      const got = await ask(weir, prompt);
      assert.deepEqual([got.predicted, got.cached], [whole(prompt.length), whole(prompt.length)]);
    }
  });

  test('what not even a replay brings back is forgotten, and the stream goes on (K10)', async (t) => {
    const mocks = await eventMocks(t, 1, {'kv-drop': 0.3, 'kv-buffer': 1});
    const weir = await routerOf(t, listening(mocks));
    let over = 0;
    for (let i = 0; i < 60; ++i) {
      const got = await ask(weir, ids(i % 20, 400));
      over += got.predicted > got.cached ? 1 : 0;
    }
    assert.equal(over, 0, 'promised more than there was');
    let next = 100; // a replica tells of what is new to it alone
    await eventually('something new to be confirmed', async () => {
      const prompt = ids(++next, 1_000);
      await ask(weir, prompt);
      await new Promise((resolve) => setTimeout(resolve, 20));
      return (await holdings(weir, prompt))[0][2] === 'confirmed';
    }, CONFIRM_MS);
    const got = await ask(weir, ids(next, 1_000));
    assert.deepEqual([got.predicted, got.cached], [960, 960]);
  });

  test('a replica that begins anew is forgotten by its first batch (K8)', async (t) => {
    const before = await startMock({...FREE});
    const weir = await routerOf(t, listening([before]));
    const prompts = Array.from({length: 20}, (_, i) => ids(i, 500));
    for (const prompt of prompts) await ask(weir, prompt);
    await confirmed(weir, prompts[19], 448);
    const same = {listen: before.authority, 'kv-events': before.events, 'kv-replay': before.replay};
    await before.stop();
    const after = await Tool.start('mock', ...flags(same));
    t.after(() => after.stop());
    // Its stream is up again when something new is confirmed.
    let next = 50;
    await ask(weir, ids(next, 500));
    await confirmed(weir, ids(50, 500), 448, () => ask(weir, ids(++next, 200)));
    let wrong = 0;
    for (const prompt of prompts) {
      const got = await ask(weir, prompt);
      wrong += got.predicted === got.cached ? 0 : 1;
    }
    assert.equal(wrong, 0, 'promises of what the replica held before it began anew');
  });

  test('pages of a size that fits neither way: a log line, and the cache is predicted', async (t) => {
    const mocks = await eventMocks(t, 1, {'block-tokens': 48});
    const weir = await routerOf(t, listening(mocks));
    await eventually('the refusal', async () => {
      await ask(weir, ids(1, 1_000));
      return /target 'r1': its KV events do not fit; its cache is predicted/.test(weir.log);
    });
    assert.match(weir.log, /48 tokens neither divide nor are divided by the unit of 64/);
    const prompt = ids(2, 1_000);
    await ask(weir, prompt);
    assert.deepEqual(await holdings(weir, prompt), [[960, 960, 'predicted']]);
    const got = await ask(weir, prompt);
    assert.deepEqual([got.predicted, got.cached], [960, 960]);
  });

  test('a replica that publishes nothing is served all the same', async (t) => {
    const mocks = await mocksOf(t, 1);
    const dead = [{events: 'tcp://127.0.0.1:1', replay: 'tcp://127.0.0.1:2'}];
    const targets = replicas(mocks).map((r) => ({...r, cache: {...r.cache, ...dead[0]}}));
    const weir = await routerOf(t, targets);
    for (let i = 0; i < 3; ++i) assert.equal((await ask(weir, ids(1, 500))).predicted, 0);
  });
});

describe('events: more than one gateway', {timeout: 120_000}, () => {
  const asKeys = (config, dir) => ({...config, auth: keysOf({a1: 'a', b1: 'b'}, dir)});
  // Two gateways with one salt that listen to the same replicas.
  async function pair(t, mocks) {
    const dirs = [folderOf(), folderOf()];
    const weirs = [];
    for (const dir of dirs) {
      if (dir === dirs[1]) copyFileSync(path.join(dirs[0], 'salt'), path.join(dir, 'salt'));
      const change = (config, own) => ({...asKeys(config, own), routing: {state_dir: dir}});
      weirs.push(await routerOf(t, listening(mocks), change));
    }
    return weirs;
  }
  const told = async (weir, prompt, key) =>
    (await explain(weir, prompt, {key})).candidates.map((c) => [c.target, c.page_tokens, c.reusable_tokens]);

  for (const known of [true, false]) {
    const what = known ? 'tenants that both know' : 'a tenant that only one has served';
    test(`two gateways agree, ${what} (K17)`, async (t) => {
      const mocks = await eventMocks(t, 2);
      const [first, second] = await pair(t, mocks);
      const both = known ? ['a1', 'b1', 'a1', 'b1'] : [];
      for (const [i, key] of both.entries())
        await explain(i < 2 ? first : second, ids(1, 100), {key});
      const prompts = Array.from({length: 10}, (_, i) => ids(i, 600 + 50 * i));
      for (const [i, prompt] of prompts.entries())
        await ask(known && i % 2 ? second : first, prompt, {}, bearer(i % 3 ? 'a1' : 'b1'));
      for (const [i, prompt] of prompts.entries()) {
        const key = i % 3 ? 'a1' : 'b1';
        const sum = (rows) => rows.reduce((all, [, pages]) => all + pages, 0);
        const settled = async (weir) => sum(await told(weir, prompt, key)) >= whole(prompt.length);
        await eventually(`prompt ${i} at the first`, () => settled(first), CONFIRM_MS);
        await eventually(`prompt ${i} at the second`, () => settled(second), CONFIRM_MS);
        assert.deepEqual(await told(first, prompt, key), await told(second, prompt, key));
      }
    });
  }

  test('a gateway that starts late learns all from the replay', async (t) => {
    const mocks = await eventMocks(t, 1);
    const dir = folderOf();
    const change = (config, own) => ({...asKeys(config, own), routing: {state_dir: dir}});
    const before = await routerOf(t, listening(mocks), change);
    const prompt = ids(1, 1_000);
    await ask(before, prompt, {}, bearer('a1'));
    const fresh = folderOf();
    copyFileSync(path.join(dir, 'salt'), path.join(fresh, 'salt'));
    const after = await routerOf(t, listening(mocks), (config, own) => ({
      ...asKeys(config, own),
      routing: {state_dir: fresh},
    }));
    await eventually(
      'the replay',
      async () => (await holdings(after, prompt, {key: 'a1'}))[0][2] === 'confirmed',
      CONFIRM_MS,
    );
  });
});
