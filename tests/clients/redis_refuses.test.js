// A Redis that greets and then refuses, one key of it that is damaged, and servers that are none: neither log nor
// processor nor memory is flooded, and a stop is quick.
import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import {describe, test} from 'node:test';

import {SLOW, chatBody, startRelay, target, upstreamOf} from './support/relay.js';
import {eventually} from './support/raw.js';
import {pretenderOf, redisOf} from './support/redis.js';
import {bearer, folderOf, keysOf, sum} from './support/routing.js';
import {chatReply, jsonReply, replies, sleep} from './support/upstream.js';

const PRICE = {fresh_usd_per_mtok: 2, output_usd_per_mtok: 8};
const LEASE_MS = 800;
const WATCH_MS = 2_000;
const BACKOFF_MAX_MS = 400;
const ATTEMPTS_MAX = 4 + WATCH_MS / BACKOFF_MAX_MS + 3; // 25, 50, 100, 200, 400, 400, ...
const STOP_MS = SLOW ? 4_000 : 1_000;
const MEMORY_MAX_KB = (SLOW ? 64 : 4) * 1024 * 1024; // a sanitizer's shadow is large

const KEYS = {
  rate: {tenant: 't', limits: {requests_per_min: 60_000}},
  money: {tenant: 't', limits: {usd_per_day: 1_000}},
};

async function gatewayOf(t, redis, more = {}) {
  const upstream = await upstreamOf(t, replies(jsonReply(chatReply())));
  const ledger = `${folderOf()}/ledger`;
  const weir = await startRelay([{...target(upstream), price: PRICE}], (config, dir) => ({
    ...config,
    auth: {...keysOf(KEYS, dir), ledger_dir: ledger},
    redis: {url: redis.url, timeout_ms: 300, lease_ms: LEASE_MS, ...more},
  }));
  t.after(() => weir.stop().catch((error) => weir.stopped || Promise.reject(error)));
  return weir;
}

const ask = async (weir, key) => {
  const answer = await weir.post('/v1/chat/completions', chatBody({max_tokens: 10}), bearer(key));
  await answer.text();
  return answer.status;
};

async function statusesFor(weir, ms) {
  const out = {rate: new Set(), money: new Set()};
  for (const end = Date.now() + ms; Date.now() < end; await sleep(5)) {
    for (const key of ['rate', 'money']) out[key].add(await ask(weir, key));
  }
  return {rate: [...out.rate], money: [...out.money]};
}

const stateLines = (weir) => weir.log.split('\n').filter((line) => line.includes('shared limits:'));
const isUp = async (weir) => sum(await weir.metric(/^weir_shared_limits_up/)) === 1;
const connectionsOf = async (redis) =>
  Number(/total_connections_received:(\d+)/.exec(await redis.cli('info', 'stats'))[1]);

async function assertStopsAtOnce(weir) {
  const begun = performance.now();
  weir.child.kill('SIGTERM');
  const {code} = await weir.ended;
  const ms = performance.now() - begun;
  weir.stopped = true;
  assert.equal(code, 0, weir.log);
  assert.ok(ms < STOP_MS, `${ms} ms`);
}

const user = (change) => (redis) => redis.cli('ACL', 'SETUSER', 'default', change);
const REFUSALS = [
  {name: 'a right is missing', begin: user('-hset'), end: user('+hset'), said: /NOPERM|can.t run this command/},
  {name: 'another right is missing', begin: user('-pexpire'), end: user('+pexpire'), said: /NOPERM|can.t run this command/},
  {
    name: 'the script may not run',
    begin: user('-evalsha'),
    end: user('+evalsha'),
    said: /NOPERM|can.t run this command/,
  },
];

describe('a Redis that greets and refuses', {timeout: 120_000}, () => {
  for (const fault of REFUSALS) {
    test(`${fault.name}: one line, few attempts, and back when it is given`, async (t) => {
      const redis = await redisOf(t);
      const weir = await gatewayOf(t, redis);
      await eventually('money', async () => (await ask(weir, 'money')) === 200);
      await fault.begin(redis);
      await eventually('it is noticed', async () => (await ask(weir, 'rate')) && !(await isUp(weir)));
      await sleep(LEASE_MS);
      const before = await connectionsOf(redis);
      const seen = await statusesFor(weir, WATCH_MS);
      const attempts = (await connectionsOf(redis)) - before;
      assert.deepEqual(seen, {rate: [200], money: [503]});
      assert.ok(attempts <= ATTEMPTS_MAX, `${attempts} connections in ${WATCH_MS} ms`);
      assert.equal(stateLines(weir).length, 2, weir.log);
      assert.match(stateLines(weir)[1], fault.said);
      await fault.end(redis);
      await eventually('money again', async () => (await ask(weir, 'money')) === 200);
      assert.equal(stateLines(weir).length, 3, weir.log);
    });
  }

  test('in cluster mode it is as if it were away', async (t) => {
    const redis = await redisOf(t, '--cluster-enabled', 'yes');
    await redis.cli('cluster', 'addslotsrange', '0', '16383');
    await eventually('the cluster', async () => /cluster_state:ok/.test(await redis.cli('cluster', 'info')));
    const weir = await gatewayOf(t, redis);
    const before = await connectionsOf(redis);
    assert.deepEqual(await statusesFor(weir, WATCH_MS), {rate: [200], money: [503]});
    const attempts = (await connectionsOf(redis)) - before;
    assert.ok(attempts <= ATTEMPTS_MAX, `${attempts} connections in ${WATCH_MS} ms`);
    assert.equal(stateLines(weir).length, 1, weir.log);
    await assertStopsAtOnce(weir);
  });

  test('one damaged key is away alone, and comes back when it is repaired', async (t) => {
    const redis = await redisOf(t);
    const weir = await gatewayOf(t, redis);
    await eventually('money', async () => (await ask(weir, 'money')) === 200);
    await ask(weir, 'rate');
    for (const spoil of [['set', 'weir:r:rate', 'x'], ['hset', 'weir:r:rate', 'r', 'garbage']]) {
      await redis.cli('del', 'weir:r:rate');
      await redis.cli(...spoil);
      const lines = stateLines(weir).length;
      const said = () => stateLines(weir).slice(lines);
      await eventually('it is noticed', async () => (await ask(weir, 'rate')) && said().length > 0);
      const before = await connectionsOf(redis);
      assert.deepEqual(await statusesFor(weir, WATCH_MS), {rate: [200], money: [200]});
      assert.ok((await connectionsOf(redis)) - before <= 2); // those of the question itself
      assert.ok(await isUp(weir));
      assert.equal(said().length, 1, weir.log);
      assert.match(said()[0], /key 'rate'.* it alone counts as away/);
      await redis.cli('del', 'weir:r:rate');
      await eventually('it is back', async () => (await ask(weir, 'rate')) && said().length > 1);
      assert.match(said()[1], /takes key 'rate' again/);
    }
  });
});

const MANY = '*2147483647\r\n';
const ERROR = `-ERR \x1b[31mred\x07 ${'a'.repeat(3_000)}\r\n`;
const NONE = {
  'an array of two billion': MANY,
  'arrays of it, one in another': MANY.repeat(20),
  'a hundred million, in each of many': '*1000\r\n' + '*100000000\r\n'.repeat(100),
  'arrays without end': '*1\r\n'.repeat(100_000),
  'an error of a terminal': ERROR,
  'half a string': '$1000000\r\nabc',
  silence: '',
};

describe('a server on the Redis port that is none', {timeout: 120_000}, () => {
  for (const [name, answer] of Object.entries(NONE)) {
    test(`${name}: no memory, no waiting, one plain line, and a quick end`, async (t) => {
      const weir = await gatewayOf(t, await pretenderOf(t, answer));
      assert.deepEqual(await statusesFor(weir, 500), {rate: [200], money: [503]});
      assert.equal(stateLines(weir).length, 1, weir.log);
      assert.ok(stateLines(weir)[0].length < 500);
      assert.doesNotMatch(weir.log, /[\x00-\x09\x0b-\x1f\x7f]/);
      const status = readFileSync(`/proc/${weir.child.pid}/status`, 'utf8');
      const peak_kb = Number(/VmPeak:\s+(\d+)/.exec(status)[1]);
      if (!SLOW) assert.ok(peak_kb < MEMORY_MAX_KB, `${peak_kb} kB`);
      await assertStopsAtOnce(weir);
    });
  }
});
