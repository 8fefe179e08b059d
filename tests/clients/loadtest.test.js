// weir-loadtest against a running weir: what it counts is what happened.
import assert from 'node:assert/strict';
import {execFile} from 'node:child_process';
import {after, before, describe, test} from 'node:test';

import {MODEL, Weir} from './support/weir.js';

describe('weir-loadtest run', {timeout: 120_000}, () => {
  let weir;
  before(async () => {
    weir = await Weir.start();
  });
  after(() => weir.stop());

  const command = (...args) =>
    new Promise((resolve) =>
      execFile(process.env.WEIR_LOADTEST_BIN, ['run', ...args], (error, out, err) =>
        resolve({code: error?.code ?? 0, out, err}),
      ),
    );
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
