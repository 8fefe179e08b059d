// The scanner `compatcanary`, which others use to find out whether an endpoint is what it says: every probe of
// both APIs, against the embedded engine alone.
import assert from 'node:assert/strict';
import {spawn} from 'node:child_process';
import {text} from 'node:stream/consumers';
import path from 'node:path';
import {test} from 'node:test';

import {MODEL, Weir} from './support/weir.js';

const CLI = path.join(import.meta.dirname, 'node_modules/compatcanary/src/cli.js');

test('compatcanary passes every probe', {timeout: 120_000}, async (t) => {
  const weir = await Weir.start();
  t.after(() => weir.stop());
  const scan = spawn(process.execPath, [CLI, 'scan', '--base-url', weir.base, '--model', MODEL], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [report, faults, code] = await Promise.all([
    text(scan.stdout),
    text(scan.stderr),
    new Promise((resolve) => scan.on('close', resolve)),
  ]);
  assert.equal(code, 0, report + faults);
  assert.match(report, /7 passed, 0 warned, 0 failed/);
});
