// The load that replicas publish, of whoever's requests, decides where weir's go.
import assert from 'node:assert/strict';
import {once} from 'node:events';
import {writeFileSync} from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import {describe, test} from 'node:test';

import {ask} from './support/client.js';
import {Tool} from './support/loadtest.js';
import {eventually} from './support/raw.js';
import {assertAdds, attempts, chatBody, counts, relayOf} from './support/relay.js';
import {chatReply} from './support/upstream.js';
import {user} from './support/weir.js';

const MS = 100;
const scraped = (name, authority, {http: fields = {}, metrics = {}, ...rest} = {}) => ({
  name,
  http: {base_url: `http://${authority}/v1`, ...fields},
  metrics: {interval_ms: MS, ...metrics},
  ...rest,
});
// Nothing waits at the gateway: what is looked at is the choice.
const atOnce = (config) => ({...config, routing: {hold_max_ms: 0}});

const load = (weir, name) => counts(weir, 'weir_target_load', 'what', {target: name});
const scrapes = (weir, name) => counts(weir, 'weir_scrapes_total', 'outcome', {target: name});
async function untilLoad(weir, name, what, holds) {
  await eventually(`${what} of ${name}`, async () => holds((await load(weir, name))[what] ?? 0));
}
async function untilMore(weir, name, outcome, more = 3) {
  const then = (await scrapes(weir, name))[outcome] ?? 0;
  await eventually(`scrapes ${outcome} of ${name}`, async () => {
    return ((await scrapes(weir, name))[outcome] ?? 0) >= then + more;
  });
}

// All of `count` requests go to one replica.
async function assertAllTo(weir, name, count = 3, body = chatBody()) {
  await assertAdds(
    () => attempts(weir, name),
    {ok: count},
    async () => {
      for (let i = 0; i < count; ++i) assert.equal((await ask(weir, body)).status, 200);
    },
  );
}

const TOO_MANY = Buffer.alloc((4 << 20) + 1, 'x'); // made once: it is asked for ten times a second
const says = (text) => (request, response) => void response.end(text);
const queue = (running, waiting) =>
  says(`vllm:num_requests_running{engine="0"} ${running}\nvllm:num_requests_waiting{engine="0"} ${waiting}\n`);

// A replica that answers chats at once and whose metrics are the test's.
async function replicaOf(t, metrics) {
  const replica = {metrics, gets: []};
  const server = http.createServer((request, response) => {
    request.resume();
    if (request.method === 'GET') {
      replica.gets.push({url: request.url, headers: request.headers});
      return void replica.metrics(request, response);
    }
    request.on('end', () => {
      const {usage} = chatReply();
      const told = {...usage, prompt_tokens_details: {cached_tokens: 0}};
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify(chatReply('ok', {usage: told})));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  replica.authority = `127.0.0.1:${server.address().port}`;
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return replica;
}

async function mockOf(t, ...args) {
  const flags = ['--block-tokens', '10', '--capacity-tokens', '100000', '--checkpoint-tokens', '50'];
  const pace = ['--batch', '1', '--prefill-tokens-per-s', '2000', '--tokens', '2'];
  const mock = await Tool.start('mock', ...flags, ...pace, ...args);
  t.after(() => mock.stop());
  return mock;
}

// Seven long prompts sent to the replica directly: one runs, six wait. The result ends them.
function occupy(mock) {
  const stop = new AbortController();
  const asked = Array.from({length: 7}, (_, i) => {
    const prompt = Array.from({length: 5_000}, (_, k) => 10_000 * i + k);
    const body = JSON.stringify({model: 'm', prompt});
    const sent = {method: 'POST', signal: stop.signal, body};
    return fetch(`${mock.url}/v1/completions`, sent).catch(() => {});
  });
  return async () => {
    stop.abort();
    await Promise.all(asked);
  };
}

describe('load of others', {timeout: 120_000}, () => {
  for (const [flavor, at] of [
    ['vllm', '/metrics'],
    ['sglang', '/metrics'],
    ['sglang', '/v1/loads?include=core'],
  ]) {
    test(`${flavor}'s ${at} moves requests to the free replica`, async (t) => {
      const mocks = {r1: await mockOf(t, '--flavor', flavor), r2: await mockOf(t, '--flavor', flavor)};
      const extra = {metrics: {path: at}, cache: {checkpoint_tokens: 50}};
      const targets = Object.entries(mocks).map(([name, mock]) => scraped(name, mock.authority, extra));
      const weir = await relayOf(t, targets, atOnce);
      for (const [busy, free] of [
        ['r1', 'r2'],
        ['r2', 'r1'],
      ]) {
        const release = occupy(mocks[busy]);
        await untilLoad(weir, busy, 'waiting', (n) => n === 6);
        const told = await load(weir, busy);
        assert.equal(told.running, 1);
        assert.equal(told.capacity_tokens, 100_000);
        assert.equal(told.waiting_uncached_tokens, at === '/metrics' ? undefined : 30_000);
        await assertAllTo(weir, free);
        await release();
        await untilLoad(weir, busy, 'running', (n) => n === 0);
      }
    });
  }
});

describe('a scrape that fails', {timeout: 120_000}, () => {
  const faults = {
    'a status 500': (request, response) => void response.writeHead(500).end('no'),
    silence: () => {},
    'half an answer': (request, response) => {
      response.writeHead(200, {'content-length': 1000});
      response.write('vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n');
    },
    'a reset': (request) => request.socket.resetAndDestroy(),
    'other words': says('nothing 7\n'),
    'too many words': (request, response) => void response.end(TOO_MANY),
  };
  for (const [name, fault] of Object.entries(faults)) {
    test(`G9: ${name}: the replica is served, its last load stays`, async (t) => {
      const failing = await replicaOf(t, queue(1, 5));
      const other = await replicaOf(t, queue(0, 0));
      const weir = await relayOf(
        t,
        [scraped('r1', failing.authority), scraped('r2', other.authority)],
        atOnce,
      );
      await untilLoad(weir, 'r1', 'waiting', (n) => n === 5);
      failing.metrics = fault;
      await untilMore(weir, 'r1', 'failed');
      await assertAllTo(weir, 'r2');
      other.metrics = queue(9, 100_000);
      await untilLoad(weir, 'r2', 'waiting', (n) => n === 100_000);
      await assertAllTo(weir, 'r1');
      assert.deepEqual(await load(weir, 'r1'), {running: 1, waiting: 5});
      const complaint = /target 'r1': its load .* cannot be read/;
      assert.equal(weir.log.split('\n').filter((line) => complaint.test(line)).length, 1);

      failing.metrics = queue(0, 0);
      await untilLoad(weir, 'r1', 'waiting', (n) => n === 0);
    });
  }
});

describe('what metrics tell of the cache', {timeout: 120_000}, () => {
  // 32 KB of text: 32 units of 256 tokens.
  const prompts = ['a', 'b'].map((c) => chatBody({messages: [user(c.repeat(32 << 10))]}));
  const cache = {retention: 'dense'};
  const predictedBy = async (weir, body) => {
    const read = () => counts(weir, 'weir_prefix_tokens_total', 'kind');
    const then = await read();
    assert.equal((await ask(weir, body)).status, 200);
    let now;
    await eventually('the usage', async () => {
      now = await read();
      return (now.prompt ?? 0) > (then.prompt ?? 0);
    });
    return (now.predicted ?? 0) - (then.predicted ?? 0);
  };
  const cached = (blocks, queried) =>
    says(
      `vllm:cache_config_info{block_size="128",engine="0",num_gpu_blocks="${blocks}"} 1.0\n` +
        `vllm:prefix_cache_queries_total{engine="0"} ${queried}\n`,
    );

  test('its capacity', async (t) => {
    for (const [blocks, expected] of [
      [1_000, 8_192],
      [64, 0], // room for one of the prompts
    ]) {
      const replica = await replicaOf(t, cached(blocks, 1));
      const weir = await relayOf(t, [scraped('r1', replica.authority, {cache})]);
      await untilLoad(weir, 'r1', 'capacity_tokens', (n) => n === blocks * 128);
      assert.equal(await predictedBy(weir, prompts[0]), 0);
      assert.equal(await predictedBy(weir, prompts[1]), 0);
      assert.equal(await predictedBy(weir, prompts[0]), expected, `${blocks} blocks`);
    }
  });

  test('a restart, by a counter that fell', async (t) => {
    const replica = await replicaOf(t, cached(1_000, 1e6));
    const weir = await relayOf(t, [scraped('r1', replica.authority, {cache})]);
    await untilMore(weir, 'r1', 'ok');
    assert.equal(await predictedBy(weir, prompts[0]), 0);
    assert.equal(await predictedBy(weir, prompts[0]), 8_192);
    replica.metrics = cached(1_000, 10);
    await eventually('the restart', () => weir.log.includes("target 'r1' was restarted"));
    assert.equal(await predictedBy(weir, prompts[0]), 0);
    assert.equal(await predictedBy(weir, prompts[0]), 8_192);
  });
});

describe('the scraper', {timeout: 60_000}, () => {
  test("asks at the host's root with the target's key", async (t) => {
    const replica = await replicaOf(t, queue(0, 0));
    const weir = await relayOf(t, [], (config, dir) => {
      const key = path.join(dir, 'key');
      writeFileSync(key, 'sk-replica', {mode: 0o600});
      const target = scraped('r1', replica.authority, {http: {api_key_file: key}, metrics: {path: '/m?x=1'}});
      return {...config, targets: [target], models: [{name: 'fox', targets: ['r1']}]};
    });
    await untilMore(weir, 'r1', 'ok');
    const [{url, headers}] = replica.gets;
    assert.equal(url, '/m?x=1');
    assert.equal(headers.authorization, 'Bearer sk-replica');
    assert.equal(headers.host, replica.authority);
  });

  test('follows a reload', async (t) => {
    const replicas = [await replicaOf(t, queue(0, 1)), await replicaOf(t, queue(0, 2))];
    const targets = replicas.map(({authority}, i) => scraped(`r${i + 1}`, authority));
    const weir = await relayOf(t, targets);
    await untilMore(weir, 'r1', 'ok');
    await untilMore(weir, 'r2', 'ok');
    const moved = await replicaOf(t, queue(0, 3));
    const without = {...targets[0], metrics: undefined};
    weir.configure({...weir.config, targets: [without, scraped('r2', moved.authority)]});
    weir.child.kill('SIGHUP');
    await untilLoad(weir, 'r2', 'waiting', (n) => n === 3);
    const then = replicas.map(({gets}) => gets.length);
    await untilMore(weir, 'r2', 'ok', 5);
    for (const [i, {gets}] of replicas.entries()) assert.ok(gets.length <= then[i] + 1, `replica ${i + 1}`);
  });
});
