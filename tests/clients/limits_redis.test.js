// Several gateways that share a key's limits and budgets through Redis, and what happens when it is away.
// Cases carry the names of the faults that users of other gateways reported.
import assert from 'node:assert/strict';
import {writeFileSync} from 'node:fs';
import path from 'node:path';
import {describe, test} from 'node:test';

import {SLOW, chatBody, inParallel, logLine, startRelay, target, upstreamOf} from './support/relay.js';
import {eventually} from './support/raw.js';
import {pretenderOf, redisOf} from './support/redis.js';
import {bearer, folderOf, keysOf, sum, tally} from './support/routing.js';
import {chatReply, jsonReply, replies, sleep} from './support/upstream.js';

const PRICE = {fresh_usd_per_mtok: 2, output_usd_per_mtok: 8};
const TIMEOUT_MS = 300; // that a request may wait for Redis
const LEASE_MS = 1000;
const MARGIN_MS = SLOW ? 4000 : 1500; // for everything else that a request does, on a busy machine
const BACK_MS = SLOW ? 6000 : 2000; // after Redis is back

const limited = (limits) => ({tenant: 't', limits});
const chat = (weir, key, fields = {}) => weir.post('/v1/chat/completions', chatBody(fields), bearer(key));
// $0.00994 each, of at most $0.0100 and a little for the prompt.
const CENT = {max_tokens: 1_200};
const CENT_USAGE = {prompt_tokens: 10, completion_tokens: 1_190};

// Gateways that share `redis` and these keys, each with a ledger of its own.
async function gatewaysOf(t, count, redis, keys, {handler, more = {}} = {}) {
  const cents = replies(jsonReply(chatReply('Nairobi', {usage: CENT_USAGE})));
  const upstream = await upstreamOf(t, handler ?? cents);
  const weirs = [];
  for (let i = 0; i < count; ++i) {
    const ledger = `${folderOf()}/ledger`;
    const weir = await startRelay([{...target(upstream), price: PRICE}], (config, dir) => ({
      ...config,
      auth: {...keysOf(keys, dir), ledger_dir: ledger},
      redis: {url: redis.url, timeout_ms: TIMEOUT_MS, lease_ms: LEASE_MS, ...more},
    }));
    t.after(() => weir.stop().catch((error) => weir.child.signalCode !== 'SIGKILL' && Promise.reject(error)));
    weirs.push(weir);
  }
  return {weirs, upstream};
}

// One request; what it came to, and when.
async function ask(weir, key, fields) {
  const begun = performance.now();
  const answer = await chat(weir, key, fields);
  const text = await answer.text();
  const ms = performance.now() - begun;
  return {status: answer.status, headers: Object.fromEntries(answer.headers), body: JSON.parse(text), ms};
}

const statusesOf = (answers) => tally(answers.map((answer) => answer.status));

async function askMany(weirs, key, count, width, fields) {
  const answers = [];
  await inParallel(Array.from({length: count}, (_, i) => weirs[i % weirs.length]), width, async (weir) =>
    answers.push({weir, ...(await ask(weir, key, fields))}),
  );
  return answers;
}

async function spentOf(answers) {
  const passed = answers.filter((answer) => answer.status === 200);
  const lines = await Promise.all(passed.map((answer) => logLine(answer.weir, answer)));
  return sum(lines.map((line) => line.cost_usd));
}

const metric = async (weir, name) => sum(await weir.metric(new RegExp(`^${name}[ {]`)));
const isUp = async (weir) => (await metric(weir, 'weir_shared_limits_up')) === 1;

describe('limits shared through Redis', {timeout: 300_000}, () => {
  for (const count of [2, 3]) {
    test(`H1: 1,000 requests on 100 a minute over ${count} gateways`, async (t) => {
      const redis = await redisOf(t);
      const {weirs, upstream} = await gatewaysOf(t, count, redis, {a: limited({requests_per_min: 100})});
      const begun = performance.now();
      const answers = await askMany(weirs, 'a', 1_000, 100);
      const took_s = (performance.now() - begun) / 1000;
      const {200: passed = 0, 429: refused = 0} = statusesOf(answers);
      t.diagnostic(`${passed} of 1000 in ${took_s.toFixed(2)} s`);
      assert.equal(passed + refused, 1_000, JSON.stringify(statusesOf(answers)));
      assert.equal(passed, upstream.requests.length);
      assert.ok(passed <= 100 + took_s / 0.6, `${passed} in ${took_s} s`);
      assert.ok(passed >= 90, `${passed}`);
      const last = answers.findLast((answer) => answer.status === 429);
      assert.equal(last.headers['x-ratelimit-limit-requests'], '100');
      assert.ok(Number(last.headers['retry-after-ms']) > 0, JSON.stringify(last.headers));
    });
  }

  test('tokens a minute are one limit for all gateways, and what was not used comes back', async (t) => {
    const redis = await redisOf(t);
    const usage = {prompt_tokens: 10, completion_tokens: 5};
    const handler = replies(jsonReply(chatReply('Nairobi', {usage})));
    const {weirs} = await gatewaysOf(t, 2, redis, {a: limited({tokens_per_min: 60_000})}, {handler});
    const answers = await askMany(weirs, 'a', 60, 1, {max_tokens: 20_000});
    assert.deepEqual(statusesOf(answers), {200: 60});
    const {error} = (await ask(weirs[0], 'a', {max_tokens: 60_001})).body;
    assert.equal(error.code, 'request_exceeds_limit');
  });

  test('requests at once are one limit for all gateways', async (t) => {
    const redis = await redisOf(t);
    const held = [];
    const {weirs} = await gatewaysOf(t, 2, redis, {a: limited({concurrent: 4})}, {
      handler: (request, socket) => void held.push(() => socket.write(jsonReply(chatReply()))),
    });
    const running = [];
    const statuses = [];
    for (let i = 0; i < 12; ++i) {
      const asked = ask(weirs[i % 2], 'a').catch(() => {});
      const first = await Promise.race([asked, sleep(300)]);
      if (first?.status) statuses.push(first.status);
      else running.push(asked);
    }
    assert.equal(held.length, 4);
    assert.deepEqual(tally(statuses), {429: 8});
    for (const answer of held.splice(0)) answer();
    await Promise.all(running);
    // Within a lease the other gateway's places are free again.
    await eventually('four places at one gateway', async () => {
      const more = Array.from({length: 4}, () => chat(weirs[1], 'a'));
      await sleep(500);
      const count = held.length;
      for (const answer of held.splice(0)) answer();
      await Promise.all(more);
      return count === 4;
    }, 10_000);
  });

  test('H4, H5: a budget of $1 over three gateways with 200 requests at once', async (t) => {
    const redis = await redisOf(t);
    const {weirs, upstream} = await gatewaysOf(t, 3, redis, {a: limited({usd_per_day: 1})});
    const answers = await askMany(weirs, 'a', 200, 200, CENT);
    const spent = await spentOf(answers);
    t.diagnostic(`${JSON.stringify(statusesOf(answers))}, $${spent.toFixed(4)} of $1 spent`);
    assert.equal(statusesOf(answers)[200], upstream.requests.length);
    assert.ok(spent <= 1 && spent > 0.8, `${spent}`);
    // What idle gateways held comes back: one of them can use up the rest.
    await sleep(LEASE_MS);
    const rest = await askMany([weirs[0]], 'a', 20, 1, CENT);
    const all = spent + (await spentOf(rest));
    assert.ok(all <= 1 && all > 0.96, `${all}`);
    const last = rest.at(-1);
    assert.equal(last.status, 429, JSON.stringify(last.body));
    assert.equal(last.body.error.code, 'insufficient_quota');
    const to_midnight = 86_400 - (Math.floor(Date.now() / 1000) % 86_400);
    assert.ok(Math.abs(Number(last.headers['retry-after']) - to_midnight) <= 3);
    const {error} = (await ask(weirs[1], 'a', {max_tokens: 200_000})).body;
    assert.equal(error.code, 'request_exceeds_limit');
  });

  test('one absurd report locks a key out for no more than a minute', async (t) => {
    const redis = await redisOf(t);
    const absurd = replies(jsonReply(chatReply('x', {usage: {prompt_tokens: 1, completion_tokens: 99_999_999}})));
    for (const tokens_per_min of [500, 100_000]) {
      const keys = {[`k${tokens_per_min}`]: limited({tokens_per_min})};
      const {weirs} = await gatewaysOf(t, 2, redis, keys, {handler: absurd});
      const [name] = Object.keys(keys);
      assert.equal((await ask(weirs[0], name, {max_tokens: 1})).status, 200);
      await sleep(LEASE_MS);
      for (const weir of weirs) {
        const next = await ask(weir, name, {max_tokens: 1});
        assert.equal(next.status, 429, JSON.stringify(next.body));
        const wait_s = Number(next.headers['retry-after']);
        assert.ok(wait_s > 50 && wait_s <= 120, `${tokens_per_min}: ${wait_s}`);
      }
    }
  });

  test('a gateway that was killed has spent what it held, until it says better', async (t) => {
    const redis = await redisOf(t);
    const {weirs} = await gatewaysOf(t, 2, redis, {a: limited({usd_per_day: 1})});
    const before = await spentOf(await askMany([weirs[0]], 'a', 30, 4, CENT));
    weirs[0].child.kill('SIGKILL');
    await weirs[0].ended;
    const after = await spentOf(await askMany([weirs[1]], 'a', 100, 20, CENT));
    t.diagnostic(`$${before.toFixed(4)} before, $${after.toFixed(4)} after`);
    assert.ok(before + after <= 1 && after > 0.5, `${before} + ${after}`);
  });

  test('steady load asks Redis for less than every fifth request, and nobody waits', async (t) => {
    const redis = await redisOf(t);
    const limits = {requests_per_min: 600_000, tokens_per_min: 1e9, concurrent: 1_000, usd_per_day: 1e6};
    const {weirs} = await gatewaysOf(t, 2, redis, {a: limited(limits)}, {more: {lease_ms: 2000}});
    await askMany(weirs, 'a', 100, 10, CENT);
    const counts = (name) => Promise.all(weirs.map((weir) => metric(weir, name))).then(sum);
    const commands = await counts('weir_shared_commands_total');
    const waits = await counts('weir_shared_waits_total');
    const begun = performance.now();
    const answers = await askMany(weirs, 'a', 3_000, 16, CENT);
    const took_s = (performance.now() - begun) / 1000;
    assert.deepEqual(statusesOf(answers), {200: 3_000});
    const each = ((await counts('weir_shared_commands_total')) - commands) / 3_000;
    const waited = ((await counts('weir_shared_waits_total')) - waits) / 3_000;
    const rate = (3_000 / took_s).toFixed(0);
    t.diagnostic(`${each.toFixed(4)} commands and ${waited.toFixed(4)} waits a request, ${rate}/s`);
    assert.ok(each < 0.2, `${each}`);
    assert.ok(waited < 0.02, `${waited}`);
  });
});

const set = (name, value) => (redis) => redis.cli('config', 'set', name, value);
const FAULTS = [
  {name: 'killed', begin: (r) => r.kill(), end: (r) => r.begin(), empty: true},
  {name: 'frozen', begin: (r) => r.freeze(), end: (r) => r.thaw()},
  {
    name: 'a replica',
    begin: (r) => r.cli('replicaof', '127.0.0.1', '1'),
    end: (r) => r.cli('replicaof', 'no', 'one'),
  },
  {name: 'out of memory', begin: set('maxmemory', '1'), end: set('maxmemory', '0')},
  {
    name: 'silent',
    begin: (r) => r.cli('client', 'pause', '600000', 'all'),
    end: (r) => r.kill().then(() => r.begin()),
    empty: true,
  },
];
const LOADING = '-LOADING Redis is loading the dataset in memory\r\n';
const NONE = [LOADING, '', 'HTTP/1.1 400 Bad Request\r\n\r\n', '*-7\r\n$'];
const stateLines = (weir) => weir.log.split('\n').filter((line) => line.includes('shared limits:'));

// Asks both gateways for both keys until it is ended.
function loadOn(weirs) {
  const load = {answers: [], ends: false};
  const kinds = weirs.flatMap((weir) => ['rate', 'money'].map((key) => ({weir, key})));
  load.over = inParallel([...kinds, ...kinds], 8, async ({weir, key}) => {
    while (!load.ends) {
      const answer = await ask(weir, key, CENT);
      assert.ok(answer.ms < 2 * TIMEOUT_MS + MARGIN_MS, `${answer.status} after ${answer.ms} ms`);
      load.answers.push({key, ...answer});
    }
  });
  return load;
}

describe('Redis is away', {timeout: 300_000}, () => {
  for (const fault of FAULTS) {
    test(`H8: ${fault.name} under load: nothing hangs, budgets close, rates go on`, async (t) => {
      const redis = await redisOf(t);
      const keys = {rate: limited({requests_per_min: 60_000}), money: limited({usd_per_day: 1_000})};
      const {weirs} = await gatewaysOf(t, 2, redis, keys);
      const load = loadOn(weirs);
      await sleep(700);
      assert.deepEqual(statusesOf(load.answers), {200: load.answers.length});
      await fault.begin(redis);
      for (const weir of weirs) await eventually('it is noticed', async () => !(await isUp(weir)), 10_000);
      await sleep(LEASE_MS);
      load.answers.length = 0;
      await sleep(700);
      const away = load.answers.slice();
      const of = (key) => statusesOf(away.filter((answer) => answer.key === key));
      t.diagnostic(`away: rate ${JSON.stringify(of('rate'))}, money ${JSON.stringify(of('money'))}`);
      assert.deepEqual([Object.keys(of('rate')), Object.keys(of('money'))], [['200'], ['503']]);
      const closed = away.find((answer) => answer.key === 'money');
      assert.equal(closed.body.error.code, 'ledger_unavailable');
      assert.ok(Number(closed.headers['retry-after']) > 0);
      await fault.end(redis);
      const back = performance.now();
      for (const weir of weirs) {
        await eventually('money again', async () => (await ask(weir, 'money', CENT)).status === 200, 10_000);
      }
      const took = performance.now() - back;
      t.diagnostic(`recovered in ${took.toFixed(0)} ms`);
      assert.ok(took < BACK_MS, `${took} ms`);
      load.ends = true;
      await load.over;
      for (const weir of weirs) {
        assert.ok(stateLines(weir).length <= (fault.empty ? 4 : 3), stateLines(weir).join('\n'));
        assert.equal((await metric(weir, 'weir_shared_epochs_total')) >= 1, fault.empty === true);
      }
    });
  }

  test('restarted empty: what was spent is known again, and $1 stays $1', async (t) => {
    const redis = await redisOf(t);
    const {weirs} = await gatewaysOf(t, 3, redis, {a: limited({usd_per_day: 1})});
    let spent = await spentOf(await askMany(weirs, 'a', 45, 9, CENT));
    for (let round = 0; round < 2; ++round) {
      await redis.kill();
      await redis.begin();
      const answers = await askMany(weirs, 'a', 30, 30, CENT);
      spent += await spentOf(answers);
    }
    await eventually('the budget is used up', async () => {
      const answers = await askMany(weirs, 'a', 60, 30, CENT);
      spent += await spentOf(answers);
      await sleep(200);
      return answers.every((answer) => answer.status === 429);
    }, 20_000);
    t.diagnostic(`$${spent.toFixed(4)} of $1 spent`);
    assert.ok(spent <= 1 && spent > 0.9, `${spent}`);
  });

  test('a wrong password at the start is said, but not told, and is as if Redis were down', async (t) => {
    const redis = await redisOf(t, '--requirepass', 'right-canary');
    const file = path.join(folderOf(), 'password');
    writeFileSync(file, 'wrong-canary\n', {mode: 0o600});
    const keys = {rate: limited({requests_per_min: 100}), money: limited({usd_per_day: 1})};
    for (const [policy, status] of [['local', 200], ['refuse', 503]]) {
      const more = {password_file: file, rates_when_down: policy};
      const {weirs: [weir]} = await gatewaysOf(t, 1, redis, keys, {more});
      assert.match(weir.log, /shared limits: 127\.0\.0\.1:\d+: WRONGPASS/);
      assert.equal((await ask(weir, 'rate')).status, status);
      assert.equal((await ask(weir, 'money', CENT)).status, 503);
      assert.doesNotMatch(weir.log + weir.out, /canary/);
    }
    writeFileSync(file, 'right-canary\n', {mode: 0o600});
    const {weirs: [weir]} = await gatewaysOf(t, 1, redis, keys, {more: {password_file: file}});
    assert.ok(await isUp(weir), weir.log);
    assert.equal((await ask(weir, 'money', CENT)).status, 200);
  });

  test('servers that are none: loading, silent, talking nonsense', async (t) => {
    const keys = {rate: limited({requests_per_min: 100}), money: limited({usd_per_day: 1})};
    for (const answer of NONE) {
      const {weirs: [weir]} = await gatewaysOf(t, 1, await pretenderOf(t, answer), keys);
      assert.equal((await ask(weir, 'rate')).status, 200);
      assert.equal((await ask(weir, 'money', CENT)).status, 503);
      assert.equal(stateLines(weir).length, 1, weir.log);
    }
  });
});
