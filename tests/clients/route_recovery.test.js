// What a failure costs: reuse lost, and how long until it is as before. Each figure is printed and bounded.
import assert from 'node:assert/strict';
import {copyFileSync} from 'node:fs';
import path from 'node:path';
import {describe, test} from 'node:test';

import {Tool} from './support/loadtest.js';
import {randomSource} from './support/relay.js';
import {
  HYBRID_CACHE,
  Sessions,
  ask,
  flags,
  folderOf,
  ids,
  mocksOf,
  percent,
  replicas,
  routerOf,
  startMock,
  sum,
  tally,
} from './support/routing.js';

const REPLICAS = 4;
const FREE = {'kv-events': 'tcp://127.0.0.1:*', 'kv-replay': 'tcp://127.0.0.1:*'};
const SETTLED = 0.03; // of the hit rate: prompts grow, so it rises a little from turn to turn

const targetsOf = (mocks, {events = true, replay = true, ...fields} = {}) =>
  replicas(mocks, HYBRID_CACHE, fields).map((target, i) => ({
    ...target,
    cache: {
      ...HYBRID_CACHE,
      ...(events && mocks[i].events && {events: mocks[i].events}),
      ...(events && replay && mocks[i].replay && {replay: mocks[i].replay}),
    },
  }));

describe('a replica of four begins anew', {timeout: 120_000}, () => {
  for (const [how, fields] of [
    ['its answers alone tell it', {}],
    ['its events tell it', FREE],
  ]) {
    test(how, async (t) => {
      const before = await startMock(fields);
      const mocks = [before, ...(await mocksOf(t, REPLICAS - 1, fields))];
      const weir = await routerOf(t, targetsOf(mocks));
      const sessions = new Sessions();
      await sessions.turn(weir);
      const usual = await sessions.play(weir);
      const moved = {'kv-events': before.events, 'kv-replay': before.replay};
      await before.stop();
      const again = {...fields, ...(before.events && moved), listen: before.authority};
      const after = await Tool.start('mock', ...flags(again));
      t.after(() => after.stop());

      const lost = tally(usual.targets).r1 ?? 0;
      const begun = performance.now();
      const during = await sessions.play(weir);
      const took = performance.now() - begun;
      const later = await sessions.play(weir);
      t.diagnostic(
        `hit rate ${percent(usual.rate)}, then ${percent(during.rate)}, then ${percent(later.rate)}; ` +
          `${lost} of ${sessions.count} sessions lost theirs, ${during.wrong.length} promises wrong, ` +
          `recovered within one turn of all (${took.toFixed(0)} ms)`,
      );
      assert.ok(lost > 0, 'nothing was lost, so nothing is shown');
      // What the replica held is lost, and no more than that.
      const unavoidable = (usual.rate * lost) / sessions.count;
      assert.ok(during.rate > usual.rate - unavoidable - SETTLED, `${during.rate} of ${usual.rate}`);
      assert.ok(during.wrong.length <= lost, `${during.wrong.length} promises wrong`);
      assert.ok(later.rate > usual.rate - SETTLED, `${later.rate} of ${usual.rate}`);
      assert.deepEqual(later.wrong, []);
    });
  }
});

describe('batches of events are lost and no replay is offered', {timeout: 180_000}, () => {
  const TURNS = 5;
  // What is known of a replica is forgotten at each gap; `rate`: that is left at least, `run`: of a session's
  // turns without reuse, one after another, at most.
  const losses = {
    none: {drop: 0, rate: 0.85, run: 0},
    'one in fifty': {drop: 0.02, rate: 0.65, run: 3},
    'one in five': {drop: 0.2, rate: 0.35, run: TURNS - 1},
  };
  for (const [name, {drop, rate, run}] of Object.entries(losses)) {
    test(`lost: ${name}`, async (t) => {
      const mocks = [];
      for (let seed = 1; seed <= REPLICAS; ++seed)
        mocks.push(...(await mocksOf(t, 1, {...FREE, 'kv-drop': drop, seed})));
      const weir = await routerOf(t, targetsOf(mocks, {replay: false}));
      const sessions = new Sessions();
      await sessions.turn(weir);
      let [cached, asked, over, longest] = [0, 0, 0, 0];
      const without = sessions.prompts.map(() => 0);
      for (let turn = 0; turn < TURNS; ++turn) {
        const played = await sessions.play(weir);
        cached += played.cached;
        asked += played.asked;
        over += played.over;
        played.reused.forEach((share, i) => {
          without[i] = share < 0.5 ? without[i] + 1 : 0;
          longest = Math.max(longest, without[i]);
        });
      }
      const got = cached / asked;
      t.diagnostic(
        `hit rate ${percent(got)}; a session found nothing for ${longest} turns at most; ` +
          `${over} promises too high`,
      );
      assert.equal(over, 0, 'promised more than there was');
      assert.ok(got >= rate, `${got}`);
      assert.ok(longest <= run, `${longest} turns`);
    });
  }
});

describe('load is polled rarely', {timeout: 180_000}, () => {
  const RATE = 10_000;
  const REQUESTS = 420; // over more than one poll at 15 s
  const TOKENS = 1_600;
  const UTILIZATION = 0.7;

  // Strangers that come at random times; what each replica worked, and how long answers took.
  async function drive(weir) {
    const random = randomSource(7);
    const work = {};
    const took = [];
    const every = (1e3 * TOKENS) / (UTILIZATION * RATE * REPLICAS);
    let due = performance.now();
    const running = [];
    for (let i = 0; i < REQUESTS; ++i) {
      due += -Math.log(1 - random(1e6) / 1e6) * every;
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, due - performance.now())));
      const prompt = ids(i, 100 + random(2 * (TOKENS - 100)));
      const one = async () => {
        const {target, ms} = await ask(weir, prompt);
        work[target] = (work[target] ?? 0) + prompt.length;
        took.push(ms);
      };
      running.push(one());
    }
    await Promise.all(running);
    const spread = (Math.max(...Object.values(work)) * REPLICAS) / sum(Object.values(work));
    return {spread, mean: sum(took) / took.length};
  }

  test('every 15 s: our own dispatches keep it spread', async (t) => {
    const got = {};
    for (const interval_ms of [100, 15_000]) {
      const mocks = await mocksOf(t, REPLICAS, {'prefill-tokens-per-s': RATE});
      const fields = {metrics: {interval_ms}, speed: {prefill_tokens_per_s: RATE, ttft_base_ms: 1}};
      const weir = await routerOf(t, targetsOf(mocks, fields));
      const begun = performance.now();
      got[interval_ms] = await drive(weir);
      assert.ok(performance.now() - begun > 16_000, 'no poll fell into the run');
      const {spread, mean} = got[interval_ms];
      t.diagnostic(
        `polled every ${interval_ms} ms: busiest ${spread.toFixed(3)} of the mean, ` +
          `answers in ${mean.toFixed(0)} ms`,
      );
    }
    const {100: often, 15000: rarely} = got;
    assert.ok(rarely.spread <= often.spread + 0.1 && rarely.spread <= 1.2, JSON.stringify(got));
    assert.ok(rarely.mean <= 1.25 * often.mean + 20, JSON.stringify(got));
  });
});

describe('two gateways listen to the same replicas', {timeout: 120_000}, () => {
  test('sessions that change the gateway at every turn keep their reuse', async (t) => {
    const rates = {};
    for (const [name, count] of [
      ['one gateway', 1],
      ['two gateways', 2],
    ]) {
      const mocks = await mocksOf(t, REPLICAS, FREE);
      const dirs = Array.from({length: count}, () => folderOf());
      const weirs = [];
      for (const dir of dirs) {
        if (weirs.length > 0) copyFileSync(path.join(dirs[0], 'salt'), path.join(dir, 'salt'));
        const change = (config) => ({...config, routing: {state_dir: dir}});
        weirs.push(await routerOf(t, targetsOf(mocks), change));
      }
      const sessions = new Sessions();
      await sessions.turn(...weirs);
      let [cached, asked, over] = [0, 0, 0];
      for (let turn = 0; turn < 3; ++turn) {
        weirs.reverse();
        const played = await sessions.play(...weirs);
        cached += played.cached;
        asked += played.asked;
        over += played.over;
      }
      rates[name] = cached / asked;
      t.diagnostic(`${name}: hit rate ${percent(rates[name])}, ${over} promises too high`);
      assert.equal(over, 0, `${name}: promised more than there was`);
    }
    const lost = rates['one gateway'] - rates['two gateways'];
    assert.ok(rates['one gateway'] > 0.8, JSON.stringify(rates));
    assert.ok(lost < SETTLED, JSON.stringify(rates));
  });
});
