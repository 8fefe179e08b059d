// Three replicas under load, of which one after another is lost and comes back: no client sees an error before
// its first content, and little is sent twice.
import assert from 'node:assert/strict';
import {describe, test} from 'node:test';

import {Tool, loadOf} from './support/loadtest.js';
import {NAME, counts, relayOf} from './support/relay.js';
import {sleep} from './support/upstream.js';

const RATE = 500; // requests a second
const LOST_MS = 5_000;
const PAUSE_MS = 4_000;
const mock = (listen = '127.0.0.1:0') => Tool.start('mock', '--listen', listen, '--ttft-ms', '20', '--itl-ms', '5', '--tokens', '4');

describe('failover under load', {timeout: 180_000}, () => {
  test(`${RATE} requests a second, a replica of three killed, then one frozen, then one cut off`, async (t) => {
    let first = await mock();
    const second = await mock();
    const third = await mock();
    const wire = await Tool.start('chaos', '--to', third.authority);
    t.after(() => Promise.all([first.stop(), second.stop(), third.stop(), wire.stop()]));
    const at = {killed: first.url, frozen: second.url, cut: wire.url};
    const targets = Object.entries(at).map(([name, url]) => ({name, http: {base_url: `${url}/v1`}}));
    const weir = await relayOf(t, targets, (config) => ({
      ...config,
      failover: {open_ms: 1_000, slow_start_ms: 1_000},
      log: {access: false},
    }));

    const lost = {
      killed: [() => first.child.kill('SIGKILL'), async () => (first = await mock(new URL(at.killed).host))],
      frozen: [() => second.child.kill('SIGSTOP'), () => second.child.kill('SIGCONT')],
      cut: [() => wire.child.kill('SIGUSR1'), () => wire.child.kill('SIGUSR2')],
    };
    const seconds = 2 + (Object.keys(lost).length * (LOST_MS + PAUSE_MS)) / 1_000;
    const load = loadOf(weir, NAME, RATE, seconds, ['--max-tokens', '4']);
    await sleep(2_000);
    for (const [leave, comeBack] of Object.values(lost)) {
      leave();
      await sleep(LOST_MS);
      await comeBack();
      await sleep(PAUSE_MS);
    }
    const done = await load;
    const statuses = await counts(weir, 'weir_requests_total', 'status', {model: NAME});
    const [retries] = await weir.metric(/^weir_request_retries_total /);
    t.diagnostic(`${done.completed} whole, ${done.failed} not; ${retries} retries; p99 TTFT ${done.p99_ttft_ms?.toFixed(0)} ms, longest ${done.max_ttft_ms?.toFixed(0)}; ${JSON.stringify(statuses)}`);
    const refused = Object.entries(statuses).filter(([status, count]) => status !== '200' && count > 0);
    assert.deepEqual(refused, [], 'errors before the first content');
    assert.ok(retries <= 0.1 * RATE * seconds, `${retries} retries`);
    // Those whose content had begun at the killed one.
    assert.ok(done.failed <= 0.01 * RATE * seconds, `${done.failed} failed`);
  });
});
