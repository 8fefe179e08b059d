// Rules, contracts and policies decide where a request may go; what must wait does so at the gateway.
import assert from 'node:assert/strict';
import {execFile} from 'node:child_process';
import {writeFileSync} from 'node:fs';
import path from 'node:path';
import {describe, test} from 'node:test';

import {eventually} from './support/raw.js';
import {NAME, chatBody} from './support/relay.js';
import {
  HYBRID_CACHE,
  ask,
  bearer,
  explain,
  folderOf,
  ids,
  keyed,
  keysOf,
  mocksOf,
  replicas,
  routerOf,
  tally,
} from './support/routing.js';
import {WEATHER, user} from './support/weir.js';

const verdicts = async (weir, prompt, who, fields) =>
  Object.fromEntries((await explain(weir, prompt, who, fields)).candidates.map((c) => [c.target, c.verdict]));

async function assertRefused(answer, status, code, message) {
  const text = await answer.text();
  assert.equal(answer.status, status, text);
  const {error} = JSON.parse(text);
  assert.equal(error.code, code, text);
  assert.match(error.message, message);
}
const post = (weir, prompt, headers = {}, fields = {}) =>
  weir.post('/v1/completions', {model: NAME, prompt, max_tokens: 2, ...fields}, headers);

describe('rules', {timeout: 60_000}, () => {
  test('length, tenant and tools decide, all that match together', async (t) => {
    const mocks = await mocksOf(t, 3);
    const rules = [
      {name: 'long', when: {prompt_tokens_min: 1_000}, allow: ['r1', 'r2']},
      {name: 'short', when: {prompt_tokens_max: 100}, forbid: ['r1']},
      {name: 'b-stays', when: {tenants: ['b']}, forbid: ['r2']},
      {name: 'tools', when: {tools: true}, allow: ['r2']},
      {name: 'by-key', when: {keys: ['a2']}, allow: ['r3']},
    ];
    const weir = await routerOf(t, replicas(mocks), (config, dir) => ({
      ...config,
      rules,
      auth: keysOf({a1: 'a', a2: 'a', b1: 'b'}, dir),
    }));
    const rows = [
      ['a1', 1_000, 'r1 r2'],
      ['a1', 999, 'r1 r2 r3'],
      ['a1', 100, 'r2 r3'],
      ['a1', 101, 'r1 r2 r3'],
      ['b1', 1_000, 'r1'],
      ['b1', 50, 'r3'],
      ['a2', 500, 'r3'],
    ];
    for (const [i, [key, tokens, allowed]] of rows.entries()) {
      const said = await verdicts(weir, ids(i, tokens), {key});
      const open = Object.keys(said).filter((name) => said[name] !== 'rule');
      assert.equal(open.join(' '), allowed, `${key}, ${tokens} tokens: ${JSON.stringify(said)}`);
      for (let n = 0; n < 3; ++n) {
        const got = await ask(weir, ids(10 * i + n, tokens), {}, bearer(key));
        assert.ok(allowed.includes(got.target), `${key}, ${tokens} tokens at ${got.target}`);
      }
    }
    const tools = {messages: [user('x')], tools: [WEATHER]};
    assert.deepEqual(await verdicts(weir, tools, {key: 'a1'}), {r1: 'rule', r2: 'chosen', r3: 'rule'});
    // Long and by that key: no target is left.
    const none = /^no target of 'fox' may serve this request$/;
    await assertRefused(await post(weir, ids(90, 1_500), bearer('a2')), 400, 'unsupported_feature', none);
    assert.deepEqual(await verdicts(weir, ids(90, 1_500), {key: 'a2'}), {r1: 'rule', r2: 'rule', r3: 'rule'});
    await assertRefused(
      await weir.post('/v1/chat/completions', chatBody(tools), bearer('b1')),
      400,
      'unsupported_feature',
      none,
    );
  });

  test('what would cost too much is refused', async (t) => {
    const hosted = {hosted: true, price: {fresh_usd_per_mtok: 10, cached_usd_per_mtok: 1}};
    const mocks = await mocksOf(t, 1);
    const weir = await routerOf(t, replicas(mocks, undefined, {cache: undefined, ...hosted}), (config) => ({
      ...config,
      rules: [{name: 'cheap', usd_max: 0.005}],
      models: config.models.map((model) => ({...model, overflow: {spill_by_cost: true}})),
    }));
    assert.equal((await ask(weir, ids(1, 400))).target, 'r1');
    const {candidates} = await explain(weir, ids(2, 1_000));
    assert.equal(candidates[0].verdict, 'too_expensive');
    assert.ok(Math.abs(candidates[0].cost_usd - 0.01) < 1e-4, `${candidates[0].cost_usd}`);
    const answer = await post(weir, ids(2, 1_000));
    await assertRefused(answer, 400, 'unsupported_feature', /would cost more than 'fox' allows/);
    assert.equal(await mocks[0].metric('vllm:prefix_cache_queries_total'), 400);
  });

  test('what no replica can do in time overflows to a hosted target, if it may', async (t) => {
    const mocks = await mocksOf(t, 2, {'prefill-tokens-per-s': 20_000});
    const [replica, hosted] = replicas(mocks);
    const targets = [
      {...replica, speed: {prefill_tokens_per_s: 20_000, ttft_base_ms: 1}},
      {...hosted, cache: undefined, hosted: true, price: {fresh_usd_per_mtok: 1}},
    ];
    for (const may of [true, false]) {
      const weir = await routerOf(t, targets, (config) => ({
        ...config,
        models: config.models.map((model) => ({...model, ttft_ms: 100, overflow: {hosted: may}})),
      }));
      assert.deepEqual(await verdicts(weir, ids(1, 200)), {r1: 'chosen', r2: 'overflow_only'});
      assert.equal((await ask(weir, ids(1, 200))).target, 'r1');
      const long = ids(2, 12_000); // 0.6 s
      const said = await verdicts(weir, long);
      assert.equal(said[may ? 'r2' : 'r1'], 'chosen', JSON.stringify(said));
      assert.equal((await ask(weir, long)).target, may ? 'r2' : 'r1');
    }
  });

  test('faults of the configuration are told with line and key', async (t) => {
    const dir = folderOf();
    const lines = [
      'listen: 127.0.0.1:0',
      'admin: {listen: 127.0.0.1:0}',
      'auth: {loopback_open: true}',
      'routing:',
      '  policy: best',
      '  hold_ms: -1',
      '  sharing: all',
      'targets:',
      '  - name: r1',
      '    http: {base_url: http://127.0.0.1:1/v1}',
      '    cache:',
      '      retention: interval',
      '  - name: r2',
      '    http: {base_url: http://127.0.0.1:2/v1}',
      '    cache:',
      '      replay: tcp://127.0.0.1:3',
      '      events_of: nobody',
      'models:',
      '  - {name: fox, targets: [r1, r2], ttft_ms: 0}',
    ];
    const rules = [
      'rules:',
      '  - {name: idle, when: {tools: true}}',
      '  - {name: who, allow: [r9]}',
      '  - name: what',
      '    when: {models: [cat], prompt_tokens_min: 9, prompt_tokens_max: 3}',
      '    forbid: [r1]',
      '  - {name: who, usd_max: 1}',
    ];
    const check = (text) => {
      const file = path.join(dir, 'weir.yaml');
      writeFileSync(file, text.join('\n'));
      return new Promise((resolve) => {
        execFile(process.env.WEIR_BIN, ['serve', '--check', '--config', file], (error, out, err) =>
          resolve({code: error?.code ?? 0, text: err + out}),
        );
      });
    };
    const expected = [
      /:5:\d+: routing\.policy: .*balanced/,
      /:6:\d+: routing\.hold_ms: /,
      /:7:\d+: routing\.sharing: .*tenant/,
      /:1[12]:\d+: targets\[0\]\.cache\.interval_tokens: goes with retention: interval/,
      /:1[56]:\d+: targets\[1\]\.cache\.events: is missing/,
      /:17:\d+: targets\[1\]\.cache\.events_of: /,
      /:19:\d+: models\[0\]\.ttft_ms: /,
    ];
    const first = await check(lines);
    assert.equal(first.code, 2, first.text);
    for (const said of expected) assert.match(first.text, said);
    const sound = [1, 2, 3, 8, 9, 10, 13, 14, 18].map((number) => lines[number - 1]);
    const fine = [...sound, '  - {name: fox, targets: [r1, r2]}'];
    const clean = await check(fine);
    assert.equal(clean.code, 0, clean.text);
    const second = await check([...fine, ...rules]);
    assert.equal(second.code, 2, second.text);
    const at = fine.length + 1;
    const ranges = await check([...fine, ...rules.slice(0, 1), ...rules.slice(3, 6)]);
    assert.match(ranges.text, /rules\[0\]\.when\.prompt_tokens_max: is below prompt_tokens_min/);
    assert.match(second.text, new RegExp(`:${at + 4}:\\d+: .*prompt_tokens_max: is below`));
    const rest = await check([...fine, ...rules.map((line) => line.replace('_max: 3', '_max: 30'))]);
    for (const said of [
      `:${at + 1}:\\d+: rules\\[0\\]: does nothing`,
      `:${at + 2}:\\d+: rules\\[1\\]: no target named 'r9'`,
      `:${at + 3}:\\d+: rules\\[2\\]\\.when\\.models: no model named 'cat'`,
      `:${at + 6}:\\d+: rules\\[3\\]\\.name: 'who' is taken`,
    ])
      assert.match(rest.text, new RegExp(said));
  });
});

describe('policies', {timeout: 60_000}, () => {
  const by = (policy, more = {}) => (config) => ({...config, routing: {policy, ...more}});
  // Where `count` prompts go, one after another.
  async function places(t, policy, prompts) {
    const weir = await routerOf(t, replicas(await mocksOf(t, 3)), by(policy));
    const got = [];
    for (const prompt of prompts) got.push((await ask(weir, prompt)).target);
    return got;
  }
  const strangers = Array.from({length: 36}, (_, i) => ids(i, 100));
  const same = Array.from({length: 12}, () => ids(1, 500));

  test('round_robin takes turns, whatever is held', async (t) => {
    const got = await places(t, 'round_robin', same);
    const step = ['r1', 'r2', 'r3'].indexOf(got[0]);
    assert.deepEqual(got, same.map((_, i) => `r${((step + i) % 3) + 1}`));
  });

  test('random draws all alike, in no order', async (t) => {
    const got = await places(t, 'random', strangers);
    const used = tally(got);
    assert.ok(Object.keys(used).length === 3 && Math.min(...Object.values(used)) >= 4, JSON.stringify(used));
    assert.ok(got.slice(3).some((name, i) => name !== got[i]), 'in turn');
  });

  for (const policy of ['prefix_greedy', 'latency', 'cost', 'balanced'])
    test(`${policy} stays with what is held`, async (t) => {
      const got = await places(t, policy, same);
      assert.equal(new Set(got).size, 1, got.join(' '));
    });

  for (const policy of ['least_pending', 'latency', 'cost', 'balanced'])
    test(`${policy} avoids who is busy`, async (t) => {
      const rate = 5_000;
      const mocks = await mocksOf(t, 3, {'prefill-tokens-per-s': rate});
      const speed = {prefill_tokens_per_s: rate, ttft_base_ms: 1};
      const weir = await routerOf(t, replicas(mocks, HYBRID_CACHE, {speed}), by(policy));
      const got = await Promise.all([1, 2, 3].map((i) => ask(weir, ids(i, 2_100))));
      const used = tally(got.map((g) => g.target));
      assert.equal(Object.keys(used).length, 3, JSON.stringify(used));
    });
});

describe('explain', {timeout: 60_000}, () => {
  test('it counts nothing and changes nothing', async (t) => {
    const mocks = await mocksOf(t, 3);
    const weir = await routerOf(t, replicas(mocks), (config) => ({
      ...config,
      routing: {policy: 'round_robin'},
    }));
    const first = (await ask(weir, ids(1, 100))).target;
    const then = await keyed(weir);
    for (let i = 0; i < 5; ++i) await explain(weir, ids(2, 100));
    assert.deepEqual(await keyed(weir), then);
    const turns = ['r1', 'r2', 'r3'];
    const next = turns[(turns.indexOf(first) + 1) % 3];
    assert.equal((await ask(weir, ids(3, 100))).target, next);
    for (const mock of mocks) assert.ok((await mock.metric('vllm:prefix_cache_queries_total')) <= 100);
  });

  test('on the command line: a table, or the answer as it came', async (t) => {
    const weir = await routerOf(t, replicas(await mocksOf(t, 2)), (config, dir) => ({
      ...config,
      auth: keysOf({a1: 'a', b1: 'b'}, dir),
    }));
    const prompt = ids(1, 1_000);
    const {target} = await ask(weir, prompt, {}, bearer('a1'));
    const file = path.join(folderOf(), 'request.json');
    writeFileSync(file, JSON.stringify({model: NAME, prompt}));
    const command = (...args) =>
      new Promise((resolve) => {
        execFile(process.env.WEIR_BIN, ['explain', '--url', weir.admin, ...args], (error, out, err) =>
          resolve({code: error?.code ?? 0, out, err}),
        );
      });
    const own = await command('--key', 'a1', file);
    assert.equal(own.code, 0, own.err);
    assert.match(own.out, /^model fox: 1000 prompt tokens, keyed by tokens$/m);
    assert.match(own.out, new RegExp(`^${target} +chosen +960 +960 +predicted `, 'm'));
    for (const who of [['--key', 'b1'], ['--tenant', 'b'], []]) {
      const {candidates} = JSON.parse((await command(...who, '--json', file)).out);
      assert.ok(candidates.every((c) => c.page_tokens === 0), JSON.stringify(who));
    }
    assert.notEqual((await command(path.join(folderOf(), 'none.json'))).code, 0);
  });
});

describe('waiting at the gateway', {timeout: 60_000}, () => {
  const RATE = 2_000;
  const BUSY = 4_000;
  const JSON_TYPE = {'content-type': 'application/json'};
  // One replica that has two seconds to do, and what is sent to it.
  async function busyRouter(t, limits = {}) {
    const mocks = await mocksOf(t, 1, {'prefill-tokens-per-s': RATE});
    const [replica] = replicas(mocks);
    const http = {...replica.http, first_token_timeout_ms: 20_000, request_timeout_ms: 20_000};
    const speed = {prefill_tokens_per_s: RATE, ttft_base_ms: 1};
    const weir = await routerOf(t, [{...replica, http, speed}], (config) => ({
      ...config,
      limits,
      routing: {hold_ms: 50},
    }));
    const ended = [];
    const send = async (name, tokens, signal) => {
      const body = {model: NAME, prompt: ids(tokens, tokens), max_tokens: 2, stream: true};
      const asked = {method: 'POST', headers: JSON_TYPE, body: JSON.stringify(body), signal};
      try {
        const answer = await fetch(`${weir.url}/v1/completions`, asked);
        const text = await answer.text();
        ended.push(name);
        return {status: answer.status, text};
      } catch (error) {
        return {status: error.name};
      }
    };
    const waited = async () => (await weir.metric(/^weir_placements_waited_total/))[0] ?? 0;
    const [mock] = mocks;
    const all = [send('busy', BUSY)];
    await eventually('busy', async () => (await mock.metric('vllm:num_requests_running')) === 1);
    return {
      weir,
      ended,
      all,
      // Sends it and waits until it waits.
      queue: async (name, tokens, signal) => {
        all.push(send(name, tokens, signal));
        await eventually(`${name} to wait`, async () => (await waited()) === all.length - 1);
        assert.equal(await mock.metric('vllm:num_requests_waiting'), 0); // not at the replica
      },
      prefilled: () => mock.metric('vllm:prefix_cache_queries_total'),
    };
  }

  test('shorter ones go first', async (t) => {
    const {ended, all, queue} = await busyRouter(t);
    for (const [name, tokens] of [['long', 1_500], ['middle', 800], ['short', 100]])
      await queue(name, tokens);
    const got = await Promise.all(all);
    assert.deepEqual(got.map((g) => g.status), [200, 200, 200, 200]);
    assert.deepEqual(ended, ['busy', 'short', 'middle', 'long']);
  });

  test('a client that leaves while it waits is forgotten', async (t) => {
    const {weir, all, queue, prefilled} = await busyRouter(t);
    const stop = new AbortController();
    await queue('leaves', 300, stop.signal);
    await queue('stays', 400);
    stop.abort();
    await eventually('its end in the log', () => weir.log.includes('"status":499'));
    assert.deepEqual((await Promise.all(all)).map((g) => g.status), [200, 'AbortError', 200]);
    assert.equal(await prefilled(), BUSY + 400);
  });

  test('who waits for too long gets 503', async (t) => {
    const {all, queue, prefilled} = await busyRouter(t, {first_token_timeout_ms: 300});
    await queue('late', 300);
    const [busy, late] = await Promise.all(all);
    assert.equal(busy.status, 200);
    assert.equal(late.status, 503, late.text);
    assert.match(JSON.parse(late.text).error.message, /no target of .* got free in time/);
    assert.equal(JSON.parse(late.text).error.code, 'overloaded');
    assert.equal(await prefilled(), BUSY);
  });
});
