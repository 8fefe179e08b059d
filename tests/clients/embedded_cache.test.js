// The embedded engine beside replicas: the router knows what it holds from its own events, as it knows of them.
import assert from 'node:assert/strict';
import {describe, test} from 'node:test';

import {eventually} from './support/raw.js';
import {NAME, logLine} from './support/relay.js';
import {UNIT, bearer, explain, keysOf, routerOf, sum} from './support/routing.js';
import {MODEL, Weir, defaults} from './support/weir.js';

const idsOf = (seed, count) => Array.from({length: count}, (_, i) => (seed * 31 + i * 7) % 2000);
const held = (tokens) => Math.floor(tokens / UNIT) * UNIT;

const withKeys = (config, dir) => ({
  ...config,
  auth: keysOf({own: 'one', away: 'one', free: 'one', other: 'two'}, dir),
  rules: [
    {name: 'own', when: {keys: ['own']}, allow: ['embedded']},
    {name: 'away', when: {keys: ['away']}, allow: ['r1']},
  ],
});

async function pairOf(t, engine = {}) {
  const replica = await Weir.engine('--kv-events-listen', 'tcp://127.0.0.1:0');
  t.after(() => replica.stop());
  const [embedded] = defaults().targets;
  const r1 = {
    name: 'r1',
    http: {base_url: replica.base, model: MODEL},
    cache: {checkpoint_tokens: 320, events: replica.events, replay: replica.replay},
  };
  return routerOf(t, [{...embedded, engine: {...embedded.engine, ...engine}}, r1], withKeys);
}

async function ask(weir, key, prompt) {
  const answer = await weir.post('/v1/completions', {model: NAME, prompt, max_tokens: 2}, bearer(key));
  const body = await answer.json();
  assert.equal(answer.status, 200, JSON.stringify(body));
  const line = await logLine(weir, {headers: Object.fromEntries(answer.headers)});
  return {
    target: line.target,
    predicted: line.predicted_cached_tokens ?? 0,
    cached: body.usage.prompt_tokens_details.cached_tokens,
  };
}

// Tokens that each target is known to hold.
async function known(weir, prompt, who) {
  const {candidates} = await explain(weir, prompt, who);
  return Object.fromEntries(candidates.map((c) => [c.target, c.evidence === 'confirmed' ? c.reusable_tokens : 0]));
}

describe('the embedded engine beside a replica', {timeout: 120_000}, () => {
  test('what it holds is known, for whom it holds it', async (t) => {
    const weir = await pairOf(t);
    const one = {tenant: 'one', key: 'free'};
    const got = [];
    let [here, there] = [idsOf(1, 300), idsOf(2, 300)];
    for (let turn = 0; turn < 3; ++turn) {
      got.push(await ask(weir, 'own', here), await ask(weir, 'away', there));
      await eventually('both to be known', async () => {
        const [a, b] = [await known(weir, [...here, 1], one), await known(weir, [...there, 1], one)];
        return a.embedded === held(here.length) && a.r1 === 0 && b.embedded === 0 && b.r1 === held(there.length);
      });
      const other = await known(weir, [...here, 1], {tenant: 'two', key: 'other'});
      assert.deepEqual(other, {embedded: 0, r1: 0});
      [here, there] = [[...here, ...idsOf(turn + 3, 150)], [...there, ...idsOf(turn + 9, 150)]];
    }
    for (const {predicted, cached} of got) assert.equal(predicted, cached);
    assert.equal(sum(got.map(({cached}) => cached)), 2 * (held(300) + held(450)));
  });

  test('what it dropped is known as well', async (t) => {
    const weir = await pairOf(t, {kv_bytes: 20 * 102_400, sequences: 2});
    const prompts = Array.from({length: 14}, (_, i) => idsOf(i * 17, 200));
    for (const prompt of prompts) await ask(weir, 'own', prompt);
    await ask(weir, 'own', idsOf(1, 1_200)); // needs room that others have
    const told = [];
    const got = [];
    for (const prompt of prompts.reverse()) {
      const next = [...prompt, 1];
      told.push((await known(weir, next, {tenant: 'one', key: 'free'})).embedded);
      got.push(await ask(weir, 'own', next));
    }
    const [evicted] = await weir.metric(/^weir_engine_checkpoints_evicted_total/);
    assert.ok(evicted > 0);
    assert.ok(told.includes(0) && told.includes(held(200)), `${told}`);
    assert.deepEqual(told, got.map(({cached}) => cached));
  });

  test('blocks that fit no unit are predicted instead', async (t) => {
    const weir = await pairOf(t, {unit_tokens: 48});
    const prompt = idsOf(1, 300);
    await ask(weir, 'own', prompt);
    await eventually('the refusal', () => /'embedded': its KV events do not fit/.test(weir.log));
    await ask(weir, 'own', prompt);
    const {candidates} = await explain(weir, [...prompt, 1], {tenant: 'one', key: 'free'});
    assert.equal(candidates.find(({target}) => target === 'embedded').reusable_tokens, 240); // whole units and blocks
  });
});
