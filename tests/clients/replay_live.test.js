// `weir-loadtest replay --engine live`: a trace through a real weir in front of mocks, held against the same
// trace in virtual time.
import assert from 'node:assert/strict';
import {execFile} from 'node:child_process';
import {rmSync, writeFileSync} from 'node:fs';
import path from 'node:path';
import {describe, test} from 'node:test';

import {Tool} from './support/loadtest.js';
import {NAME, SLOW} from './support/relay.js';
import {bearer, folderOf, keysOf, mocksOf, percent, replicas, routerOf} from './support/routing.js';

const REQUESTS = 300;
const SPEED = '20';
const FIGURES = [
  'hit_rate',
  'predicted_hit_rate',
  'prediction_error_mean',
  'ttft_mean_s',
  'ttft_p50_s',
  'ttft_p90_s',
  'ttft_p99_s',
  'load_spread',
  'decision_us_p99',
];
// Shared roots, deep forks, agents.
const FLEET = ['--trace', 'generate:5', '--requests', `${REQUESTS}`, '--replicas', '4'];

const replay = (...args) =>
  new Promise((resolve) =>
    execFile(process.env.WEIR_LOADTEST_BIN, ['replay', ...args], (error, out, err) =>
      resolve({code: error?.code ?? 0, out, err}),
    ),
  );
const live = (...args) => replay('--engine', 'live', '--gateway', process.env.WEIR_BIN, ...args);
async function figures(run, ...args) {
  const {code, out, err} = await run(...FLEET, '--json', ...args);
  assert.equal(code, 0, err);
  return JSON.parse(out);
}
const said = ({policy, hit_rate: hit, ttft_mean_s: ttft, ttft_p99_s: p99, load_spread: spread}) => {
  const times = `TTFT ${ttft.toFixed(2)} s, p99 ${p99.toFixed(1)} s`;
  return `${policy}: hit ${percent(hit)}, ${times}, spread ${spread.toFixed(2)}`;
};

describe('replay, live', {timeout: 300_000}, () => {
  for (const [what, args] of [
    ['checkpoints', []],
    ['dense', ['--retention', 'dense']],
  ]) {
    test(`${what}: as in virtual time`, async (t) => {
      const both = ['--policy', 'balanced,round-robin', ...args];
      const simulated = await figures(replay, ...both);
      const measured = await figures(live, '--speed', SPEED, ...both);
      for (const [i, got] of measured.entries()) {
        t.diagnostic(`live ${said(got)}, error ${percent(got.prediction_error_mean)}`);
        t.diagnostic(`simulated ${said(simulated[i])}`);
        for (const name of FIGURES) assert.ok(Number.isFinite(got[name]) && got[name] >= 0, name);
        for (const name of ['ttft_p50_s', 'decision_us_p99']) assert.ok(got[name] > 0, name);
        assert.ok(got.load_spread >= 1 && got.load_spread <= 4, `${got.load_spread}`);
        // Requests that come together may reach a replica in another order than they were sent.
        assert.ok(got.prediction_error_mean <= 0.01, `error ${got.prediction_error_mean}`);
        assert.ok(Math.abs(got.hit_rate - got.predicted_hit_rate) <= 0.01);
        // Where one request goes depends on real times, and where the next of its kind goes on that: a tenth
        // of the hit rate, and a hundredth of the prompts for round robin, whose rate is small.
        const difference = Math.abs(got.hit_rate - simulated[i].hit_rate);
        assert.ok(difference <= 0.1 * simulated[i].hit_rate + 0.01, `${difference} off`);
        // Work is the same and takes the same time; what the gateway and sockets add is wall time x speed.
        assert.ok(got.ttft_mean_s >= 0.8 * simulated[i].ttft_mean_s, said(got));
        const added = 0.05 * Number(SPEED);
        if (!SLOW) assert.ok(got.ttft_mean_s <= 1.25 * simulated[i].ttft_mean_s + added, said(got));
      }
      const [balanced, roundRobin] = measured;
      assert.ok(balanced.hit_rate >= 1.3 * roundRobin.hit_rate, 'balanced finds what is held');
    });
  }

  test('prompts as token ids, caches known by their events', async (t) => {
    const tokenizer = path.join(import.meta.dirname, '../../configs/models/weir-tiny');
    const got = await figures(live, '--speed', SPEED, '--source', 'events', '--tokenizer', tokenizer);
    t.diagnostic(`live ${said(got)}, error ${percent(got.prediction_error_mean)}`);
    const simulated = await figures(replay, '--source', 'events');
    assert.ok(Math.abs(got.hit_rate - simulated.hit_rate) <= 0.1 * simulated.hit_rate + 0.01);
    assert.ok(got.prediction_error_mean <= 0.05, `error ${got.prediction_error_mean}`);
  });

  test('a gateway that runs, with a key', async (t) => {
    const pages = {'block-tokens': 512, 'prefill-tokens-per-s': 14 * 512 * Number(SPEED), context: 1 << 30};
    const mocks = await mocksOf(t, 2, pages);
    const key = path.join(folderOf(), 'key');
    writeFileSync(key, 'k1\n');
    const cache = {checkpoint_tokens: 16_253, capacity_tokens: 2_560_000, block_tokens: 512};
    const weir = await routerOf(t, replicas(mocks, cache), (config, dir) => ({
      ...config,
      auth: keysOf({k1: 'a'}, dir),
      models: config.models.map(({tokenizer, ...model}) => model),
    }));
    assert.equal((await fetch(`${weir.base}/models`, {headers: bearer('k1')})).status, 200);
    const at = ['--engine', 'live', '--url', weir.url, '--admin-url', weir.admin, '--model', NAME];
    const cut = ['--trace', 'generate:7', '--requests', '60', '--replicas', '2', '--speed', SPEED, '--json'];
    const keyless = await replay(...at, ...cut);
    assert.equal(keyless.code, 1);
    assert.match(keyless.err, /asks for a key: --key-file/);
    const {code, out, err} = await replay(...at, ...cut, '--key-file', key);
    assert.equal(code, 0, err);
    const got = JSON.parse(out);
    t.diagnostic(said(got));
    assert.ok(got.hit_rate > 0.05 && got.prediction_error_mean <= 0.01, out);
  });
});

describe('replay, live: what cannot be', {timeout: 120_000}, () => {
  const few = ['--trace', 'generate:7', '--requests', '5'];
  const cases = {
    'no gateway there': [
      ['--url', 'http://127.0.0.1:1', '--admin-url', 'http://127.0.0.1:1', '--model', 'x'],
      1,
      /no gateway answers at http:\/\/127.0.0.1:1: Connection refused/,
    ],
    'a program that is no gateway': [
      ['--gateway', '/bin/false'],
      1,
      /the gateway did not start: it ended; see/,
    ],
    'no such program': [['--gateway', '/nowhere/weir'], 2, /--gateway/],
    'a URL without its admin address': [['--url', 'http://127.0.0.1:1', '--model', 'x'], 2, /--admin-url/],
    'an estimate of the simulation': [['--estimate', 'pages'], 2, /--estimate does not go with/],
    'a retention that no mock has': [['--retention', 'frequency'], 2, /no mock keeps by it/],
    'events without a tokenizer': [['--source', 'events'], 2, /--tokenizer/],
  };
  for (const [name, [args, code, message]] of Object.entries(cases)) {
    test(name, async () => {
      const got = await replay('--engine', 'live', ...few, ...args);
      assert.equal(got.code, code, got.err);
      assert.match(got.err, message);
      assert.equal(got.out, '');
      const [, left] = /; see (\S+)/.exec(got.err) ?? [];
      if (left) rmSync(left, {recursive: true});
    });
  }

  test('a model that is not served, a wrong admin address, replicas without a cache', async (t) => {
    const plain = await Tool.start('mock', '--tokens', '1');
    t.after(() => plain.stop());
    const weir = await routerOf(t, replicas([plain]));
    for (const [model, admin, message] of [
      ['absent', weir.admin, /serves no model 'absent', but: fox/],
      [NAME, weir.url, /is --admin-url its admin address\?/],
      [NAME, weir.admin, /targets must be mocks that keep a cache/],
    ]) {
      const at = ['--url', weir.url, '--admin-url', admin, '--model', model, '--replicas', '1'];
      const {code, err} = await replay('--engine', 'live', ...few, ...at);
      assert.equal(code, 1, err);
      assert.match(err, message);
    }
  });
});
