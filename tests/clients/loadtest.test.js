// weir-loadtest against a running weir: what it counts is what happened.
import assert from 'node:assert/strict';
import {execFile} from 'node:child_process';
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import path from 'node:path';
import {after, before, describe, test} from 'node:test';

import {Tool} from './support/loadtest.js';
import {MODEL, Weir} from './support/weir.js';

const execute = (...args) =>
  new Promise((resolve) =>
    execFile(process.env.WEIR_LOADTEST_BIN, args, (error, out, err) =>
      resolve({code: error?.code ?? 0, out, err}),
    ),
  );

describe('weir-loadtest run', {timeout: 120_000}, () => {
  let weir;
  before(async () => {
    weir = await Weir.start();
  });
  after(() => weir.stop());

  const command = (...args) => execute('run', ...args);
  const run = (...args) => command('--url', weir.url, '--json', ...args);

  for (const [name, args] of [
    ['closed loop', ['--concurrency', '4']],
    ['open loop', ['--rate', '200']],
  ]) {
    test(name, async () => {
      const {code, out, err} = await run('--model', MODEL, '--requests', '20', ...args);
      assert.equal(code, 0, err);
      const report = JSON.parse(out);
      assert.equal(report.completed, 20);
      assert.equal(report.failed, 0);
      assert.equal(report.total_output_tokens, 20 * 7); // "The capital of Kenya is Nairobi."
      assert.ok(report.median_ttft_ms > 0 && report.median_ttft_ms <= report.median_e2el_ms);
    });
  }

  test('failures are counted and end with 1', async () => {
    const {code, out} = await run('--model', 'absent', '--requests', '5');
    assert.equal(code, 1);
    assert.deepEqual([JSON.parse(out).completed, JSON.parse(out).failed], [0, 5]);
  });

  test('bad arguments end with 2 and say so', async () => {
    for (const [args, said] of [
      [['--url', 'ftp://x'], /http:\/\//],
      [['--requests', '0'], /requests/],
    ]) {
      const {code, err} = await command(...args);
      assert.equal(code, 2);
      assert.match(err, said);
    }
  });
});

describe('weir-loadtest beside its mock', {timeout: 120_000}, () => {
  let dir;
  before(() => {
    dir = mkdtempSync(path.join(tmpdir(), 'weir-loadtest-'));
  });
  after(() => rmSync(dir, {recursive: true}));

  const withMock = async (args, use) => {
    const mock = await Tool.start('mock', ...args);
    try {
      await use(mock);
    } finally {
      await mock.stop();
    }
  };
  const checked = async (mock, ...args) => {
    const {code, out} = await execute('run', '--url', mock.url, '--json', '--check-sequence', ...args);
    return {code, ...JSON.parse(out)};
  };

  test('a whole sequence of tokens passes', () =>
    withMock(['--itl-ms', '1'], async (mock) => {
      const report = await checked(mock, '--requests', '40', '--concurrency', '20', '--ramp-s', '0.1');
      assert.deepEqual([report.code, report.completed, report.total_output_tokens], [0, 40, 40 * 64]);
      assert.deepEqual([report.tokens_lost, report.tokens_reordered], [0, 0]);
    }));

  for (const [text, lost, reordered] of [
    [' tok0 tok1 tok2', 0, 0],
    [' tok0 tok1 tok3', 1, 0],
    [' tok0 tok2 tok1', 0, 1],
  ]) {
    test(`the sequence${text}`, () =>
      withMock(['--echo', '--token-bytes', '5'], async (mock) => {
        const prompts = path.join(dir, 'prompts');
        writeFileSync(prompts, `${text}\n`);
        const report = await checked(mock, '--requests', '1', '--prompts', prompts);
        assert.deepEqual([report.tokens_lost, report.tokens_reordered], [lost, reordered]);
        assert.equal(report.code, lost + reordered > 0 ? 1 : 0);
      }));
  }

  test('bench measures every scenario at every target, and shows failures instead of numbers', () =>
    withMock(['--burst', '64'], async (mock) => {
      await withMock(['--fault', 'no-done', '--itl-ms', '1'], async (faulty) => {
        const json = path.join(dir, 'bench.json');
        const targets = ['--direct', mock.url, '--target', `same=${mock.url}/,${mock.child.pid}`];
        targets.push('--target', `faulty=${faulty.url},${faulty.child.pid}`, '--paced-direct', faulty.url);
        const {code, out} = await execute('bench', ...targets, '--rounds', '2', '--seconds', '0.1', '--json', json);
        assert.equal(code, 1);
        const rows = JSON.parse(readFileSync(json, 'utf8'));
        assert.equal(rows.length, 10 * 3 + 1);
        for (const row of rows) {
          const fails = row.scenario.startsWith('stream') && row.target === 'faulty';
          if (row.scenario === 'paced-500') continue;
          assert.equal(row.failures > 0, fails, JSON.stringify(row));
          if (!fails) assert.ok(row.requests > 0 && row.p50_us > 0, JSON.stringify(row));
          if (row.target === 'same') assert.ok(row.cpu_us_per_request > 0 && row.rss_bytes > 0);
          if (row.scenario.startsWith('stream') && !fails) assert.ok(row.events >= 64 * row.requests);
        }
        assert.match(out, /stream64-c1 +faulty +\d+ FAILED beside 0 answers: a stream without \[DONE\]/);
      });
    }));

  test('bench refuses bad arguments', async () => {
    for (const [args, said] of [
      [[], /--direct/],
      [['--direct', 'ftp://x'], /http:\/\//],
      [['--direct', 'http://127.0.0.1:1', '--target', 'x'], /NAME=URL/],
      [['--direct', 'http://127.0.0.1:1', '--scenario', 'absent'], /names no scenario/],
      [['--direct', 'http://127.0.0.1:1,-3'], /process id/],
    ]) {
      const {code, err} = await execute('bench', ...args);
      assert.equal(code, 2);
      assert.match(err, said);
    }
  });
});
