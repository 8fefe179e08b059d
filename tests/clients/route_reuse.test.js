// Prompts go where their beginning is held, and what is promised of it is what happens.
import assert from 'node:assert/strict';
import {describe, test} from 'node:test';

import {NAME, chatBody, inParallel, target, upstreamOf} from './support/relay.js';
import {eventually} from './support/raw.js';
import {
  DENSE_CACHE,
  HYBRID_CACHE,
  UNIT,
  ask,
  explain,
  holdings,
  ids,
  keyed,
  mocksOf,
  prefixTokens,
  replicas,
  routerOf,
  sum,
  tally,
  tokenizer,
} from './support/routing.js';
import {user} from './support/weir.js';

const whole = (tokens) => Math.floor((tokens - 1) / UNIT) * UNIT; // what of a prompt can be resumed at most


describe('reuse: what is promised happens', {timeout: 120_000}, () => {
  const retentions = {
    'second-sighting': HYBRID_CACHE,
    'prompt-end': {...HYBRID_CACHE, retention: 'prompt_end'},
    'interval:512': {...HYBRID_CACHE, retention: 'interval', interval_tokens: 512},
    dense: DENSE_CACHE,
  };
  for (const [retention, cache] of Object.entries(retentions)) {
    test(`sessions that grow return to their replica, ${retention}`, async (t) => {
      const weir = await routerOf(t, replicas(await mocksOf(t, 3, {retention}), cache));
      const root = ids(1, 1_000);
      const sessions = Array.from({length: 6}, (_, i) => ({at: [], prompt: [...root, ...ids(10 + i, 333)]}));
      let cached = 0;
      let asked = 0;
      for (let turn = 0; turn < 5; ++turn) {
        for (const [i, session] of sessions.entries()) {
          const got = await ask(weir, session.prompt);
          assert.equal(got.predicted, got.cached, `turn ${turn} of session ${i} at ${got.target}`);
          if (turn > 0) {
            assert.equal(got.target, session.at, `turn ${turn} of session ${i}`);
            assert.ok(got.cached >= session.whole, `${got.cached} of ${session.whole}`);
          }
          session.at = got.target;
          session.whole = whole(session.prompt.length);
          cached += got.cached;
          asked += session.prompt.length;
          session.prompt = [...session.prompt, ...ids(100 * turn + i, 200 + 97 * i)];
        }
      }
      const tokens = await prefixTokens(weir);
      assert.deepEqual(tokens, {prompt: asked, predicted: cached, cached});
      assert.deepEqual(await keyed(weir), {tokens: 30});
    });
  }

  test('a replica that runs out of room is known to forget', async (t) => {
    const room = {'capacity-tokens': 60_000, 'checkpoint-tokens': 5_000};
    const mocks = await mocksOf(t, 2, room);
    const cache = {capacity_tokens: 60_000, checkpoint_tokens: 5_000};
    const weir = await routerOf(t, replicas(mocks, cache));
    const prompts = Array.from({length: 14}, (_, i) => ids(i, 3_000 + 500 * i));
    let forgotten = 0;
    let held = 0;
    for (let round = 0; round < 3; ++round) {
      for (const i of [0, 1, 2, 0, 3, 4, 1, 5, 6, 7, 0, 8, 9, 10, 11, 12, 13, 13]) {
        const got = await ask(weir, prompts[i]);
        assert.equal(got.predicted, got.cached, `round ${round}, prompt ${i} at ${got.target}`);
        if (got.cached > 0) held += 1;
        else if (round > 0) forgotten += 1;
      }
    }
    assert.ok(held > 3 && forgotten > 3, `${held} held, ${forgotten} forgotten`);
    assert.equal((await prefixTokens(weir)).error, undefined);
  });

  test('pages beyond the last checkpoint are not promised (K16)', async (t) => {
    const weir = await routerOf(t, replicas(await mocksOf(t, 1)));
    const root = ids(1, 1_000);
    const fork = (i) => [...root, ...ids(50 + i, 500)];
    for (const [i, [pages, reusable]] of [[0, 0], [960, 0], [960, 960], [960, 960]].entries()) {
      const [held] = await holdings(weir, fork(i));
      assert.deepEqual(held.slice(0, 2), [pages, reusable], `before sibling ${i}`);
      assert.match(held[2], reusable > 0 ? /^(predicted|observed)$/ : /^none$/);
      const got = await ask(weir, fork(i));
      assert.deepEqual([got.predicted, got.cached], [reusable, reusable], `sibling ${i}`);
    }
    assert.deepEqual((await holdings(weir, fork(0)))[0].slice(0, 2), [1472, 1472]);
  });

  test('pages of many units are promised whole', async (t) => {
    const mocks = await mocksOf(t, 2, {'block-tokens': 512});
    const weir = await routerOf(t, replicas(mocks, {...HYBRID_CACHE, block_tokens: 512}));
    const root = ids(1, 700);
    for (let turn = 1; turn < 5; ++turn) {
      for (let i = 0; i < 4; ++i) {
        const prompt = [...root, ...ids(20 + i, 3_000)].slice(0, 700 * turn);
        const got = await ask(weir, prompt);
        assert.equal(got.cached % 512, 0);
        assert.equal(got.predicted, got.cached, `turn ${turn} of ${i}`);
      }
    }
  });

  test('prompts that part and end within a page are known by whole pages', async (t) => {
    const mocks = await mocksOf(t, 1, {'block-tokens': 512});
    const weir = await routerOf(t, replicas(mocks, {...HYBRID_CACHE, block_tokens: 512}));
    const root = ids(1, 700);
    const cases = [
      [[...root, ...ids(2, 600)], 0],
      [[...root, ...ids(3, 600)], 0], // a checkpoint where the page ends, at 512
      [[...root.slice(0, 520), ...ids(4, 700)], 512],
      [ids(5, 1_300), 0], // its last whole page ends at 1024
      [[...ids(5, 1_300).slice(0, 1_100), ...ids(6, 900)], 1_024],
    ];
    for (const [i, [prompt, expected]] of cases.entries()) {
      const got = await ask(weir, prompt);
      assert.deepEqual([got.predicted, got.cached], [expected, expected], `prompt ${i}`);
    }
  });

  test('those that wait learn what was sent before them', async (t) => {
    const mocks = await mocksOf(t, 1, {'prefill-tokens-per-s': 10_000});
    const speed = {prefill_tokens_per_s: 10_000, ttft_base_ms: 1};
    const weir = await routerOf(t, replicas(mocks, HYBRID_CACHE, {speed}), (config) => ({
      ...config,
      routing: {hold_ms: 20},
    }));
    const root = ids(1, 1_500);
    const got = [];
    const siblings = Array.from({length: 8}, (_, i) => [...root, ...ids(20 + i, 500)]);
    await inParallel(siblings, siblings.length, async (prompt) => got.push(await ask(weir, prompt)));
    assert.ok(sum(got.map((g) => g.cached)) >= 6 * 1_472, 'all but two find it');
    for (const {predicted, cached} of got) assert.equal(predicted, cached);
  });

  test('checkpoints where hints asked for them are counted on', async (t) => {
    const mocks = await mocksOf(t, 2, {retention: 'prompt-end', 'accept-hints': true});
    const weir = await routerOf(t, replicas(mocks, {...HYBRID_CACHE, retention: 'prompt_end', hints: true}));
    const root = ids(1, 2_000);
    const got = [];
    for (let i = 0; i < 6; ++i) got.push(await ask(weir, [...root, ...ids(30 + i, 1_000)]));
    assert.deepEqual(got.map((g) => g.predicted), got.map((g) => g.cached));
    assert.ok(got.some((g) => g.cached === 1_984), JSON.stringify(got.map((g) => g.cached)));
  });
});

describe('reuse: load and strangers', {timeout: 120_000}, () => {
  test('what nobody holds goes where least is to do, not to the emptiest cache (K1)', async (t) => {
    const mocks = await mocksOf(t, 3, {'prefill-tokens-per-s': 4_000});
    const weir = await routerOf(
      t,
      replicas(mocks, HYBRID_CACHE, {speed: {prefill_tokens_per_s: 4_000, ttft_base_ms: 1}}),
    );
    for (let i = 0; i < 3; ++i) {
      const long = ask(weir, ids(i, 4_000));
      const running = () => Promise.all(mocks.map((mock) => mock.metric('vllm:num_requests_running')));
      await eventually('the long one to run', async () => sum(await running()) === 1);
      const short = await Promise.all([ask(weir, ids(10 + i, 200)), ask(weir, ids(20 + i, 200))]);
      const {target: busy} = await long;
      const used = tally([busy, ...short.map((s) => s.target)]);
      assert.deepEqual(Object.values(used), [1, 1, 1], JSON.stringify(used));
    }
  });

  test('strangers of equal length are no acquaintances (K13)', async (t) => {
    const weir = await routerOf(t, replicas(await mocksOf(t, 2, {retention: 'dense'}), DENSE_CACHE));
    const prompts = Array.from({length: 8}, (_, i) => ids(i, 640));
    for (const prompt of prompts) {
      assert.ok((await holdings(weir, prompt)).every(([pages]) => pages === 0));
      assert.equal((await ask(weir, prompt)).cached, 0);
    }
    // The same ids behind another first one are other prompts too.
    assert.ok((await holdings(weir, [9_999, ...prompts[0].slice(1)])).every(([pages]) => pages === 0));
    for (const prompt of prompts) assert.equal((await ask(weir, prompt)).cached, 576);
  });

  test('what a prompt says of users and sessions is text (K14)', async (t) => {
    const speed = {prefill_tokens_per_s: 5_000, ttft_base_ms: 1};
    const mocks = await mocksOf(t, 4, {'prefill-tokens-per-s': 5_000});
    const weir = await routerOf(t, replicas(mocks, HYBRID_CACHE, {speed}));
    const says = '"user": "x", "session_id": "s", "prompt_cache_key": "k", "cache_salt": "y" ';
    const texts = Array.from({length: 16}, (_, i) => `${i} ${says}`.repeat(60));
    const got = [];
    await inParallel(texts, 16, async (prompt) => got.push(await ask(weir, prompt)));
    const used = tally(got.map((g) => g.target));
    t.diagnostic(`16 of equal text: ${JSON.stringify(used)}`);
    assert.ok(Object.keys(used).length === 4 && Math.max(...Object.values(used)) <= 6, JSON.stringify(used));
    assert.ok((await holdings(weir, `x ${says}`.repeat(60))).every(([pages]) => pages === 0));
    // Nor does a user named at the top level make other prompts one's own.
    assert.ok(
      (await explain(weir, ids(77, 900), {}, {user: 'x', prompt_cache_key: 'k'})).candidates.every(
        (c) => c.page_tokens === 0,
      ),
    );
  });

  test('a hot shared beginning does not put all load on one replica (K19)', async (t) => {
    const mocks = await mocksOf(t, 4, {'prefill-tokens-per-s': 40_000});
    const speed = {prefill_tokens_per_s: 40_000, ttft_base_ms: 1};
    const weir = await routerOf(t, replicas(mocks, HYBRID_CACHE, {speed}));
    const hot = ids(1, 4_000);
    for (let i = 0; i < 3; ++i) await ask(weir, [...hot, ...ids(20 + i, 400)]);
    const got = [];
    await inParallel(Array.from({length: 48}, (_, i) => i), 48, async (i) =>
      got.push(await ask(weir, [...hot, ...ids(100 + i, 1_000)])),
    );
    const used = tally(got.map((g) => g.target));
    t.diagnostic(`a burst of 48 siblings: ${JSON.stringify(used)}, cached ${sum(got.map((g) => g.cached))}`);
    assert.equal(Object.keys(used).length, 4, JSON.stringify(used));
    assert.ok(Math.max(...Object.values(used)) <= 24, JSON.stringify(used));
    const reused = sum(got.map((g) => g.cached)) / (48 * 3_968);
    assert.ok(reused >= 0.7, `${reused} of the shared beginning`);
  });
});

describe('reuse: what is sent, and how prompts are known', {timeout: 120_000}, () => {
  test('only targets that take hints get them; each gets our salt', async (t) => {
    const upstreams = [await upstreamOf(t), await upstreamOf(t)];
    const caches = [{...HYBRID_CACHE, hints: true}, HYBRID_CACHE];
    const foxes = [user('fox '.repeat(4_000))];
    const bodies = [];
    for (const [i, upstream] of upstreams.entries()) {
      const weir = await routerOf(t, [{...target(upstream), cache: caches[i]}]);
      for (const fields of [{}, {cache_salt: 'mine'}, {cache_salt: 'yours'}, {weir_checkpoint_at: [64]}])
        await weir.post('/v1/chat/completions', chatBody({messages: foxes, ...fields}));
      bodies.push(upstream.requests.map((request) => JSON.parse(request.body)));
      assert.ok(!upstream.requests.some((request) => /mine|yours/.test(String(request.body))));
    }
    const [hinted, plain] = bodies;
    assert.ok(hinted[0].weir_checkpoint_at.length > 0);
    for (const at of hinted[0].weir_checkpoint_at) assert.ok(at > 0 && at % UNIT === 0, `${at}`);
    assert.ok(plain.slice(0, 3).every((body) => !('weir_checkpoint_at' in body)));
    for (const rows of [hinted, plain]) {
      for (const {cache_salt: salt} of rows) assert.match(salt, /^[0-9a-f]{32}$/);
      assert.equal(rows[0].cache_salt, rows[3].cache_salt);
      assert.equal(new Set(rows.map((body) => body.cache_salt)).size, 3);
    }
    for (const rows of bodies) assert.deepEqual(rows[0].messages, foxes);
  });

  test('a target that is declared shared gets no salt but a client\'s own', async (t) => {
    const upstream = await upstreamOf(t);
    const weir = await routerOf(t, [{...target(upstream), cache: {...HYBRID_CACHE, salted: false}}]);
    for (const fields of [{}, {cache_salt: 'mine'}]) {
      await weir.post('/v1/chat/completions', chatBody({messages: [user('fox '.repeat(400))], ...fields}));
      assert.equal(JSON.parse(upstream.requests.at(-1).body).cache_salt, fields.cache_salt);
    }
  });

  test('a client\'s own salt separates', async (t) => {
    const weir = await routerOf(t, replicas(await mocksOf(t, 1)));
    const prompt = ids(1, 1_000);
    const got = [];
    for (const cache_salt of ['a', 'a', 'b', undefined, 'b', undefined]) {
      const {predicted, cached} = await ask(weir, prompt, {cache_salt});
      assert.equal(predicted, cached);
      got.push(cached);
    }
    assert.deepEqual(got, [0, 960, 0, 0, 960, 960]);
  });

  test('it is counted how prompts are known', async (t) => {
    const mocks = await mocksOf(t, 1);
    const image = {type: 'image_url', image_url: {url: 'data:image/png;base64,iVBORw0KGgo='}};
    const chat = chatBody();
    const pictured = chatBody({messages: [user([image, {type: 'text', text: 'what?'}])]});
    const cases = [
      [{tokenizer}, HYBRID_CACHE, chat, 'tokens'],
      [{tokenizer}, HYBRID_CACHE, pictured, 'text'],
      [{}, HYBRID_CACHE, chat, 'text'],
      [{}, undefined, chat, 'none'],
    ];
    for (const [model, cache, body, how] of cases) {
      const weir = await routerOf(t, replicas(mocks, cache, {cache}), (config) => ({
        ...config,
        models: [{name: NAME, targets: ['r1'], ...model}],
      }));
      const answer = await weir.post('/v1/chat/completions', body);
      assert.equal(answer.status, 200, await answer.text());
      assert.deepEqual(await keyed(weir), {[how]: 1}, JSON.stringify([model, cache]));
    }
  });

  test('prompts known by their text come back to where they were', async (t) => {
    const weir = await routerOf(t, replicas(await mocksOf(t, 3)), (config) => ({
      ...config,
      models: [{name: NAME, targets: ['r1', 'r2', 'r3']}],
    }));
    for (let i = 0; i < 9; ++i) {
      const text = `${i} lorem ipsum `.repeat(500);
      const first = await ask(weir, text);
      const again = await ask(weir, `${text} and on`);
      assert.equal(again.target, first.target);
      assert.ok(again.predicted > 0 && again.cached > 0, JSON.stringify(again));
    }
    assert.deepEqual(await keyed(weir), {text: 18});
  });
});
