// `weir engine`: the embedded engine as a replica that another weir routes to by what it says of its cache.
import assert from 'node:assert/strict';
import {execFileSync, spawnSync} from 'node:child_process';
import {writeFileSync} from 'node:fs';
import path from 'node:path';
import {describe, test} from 'node:test';

import {eventually} from './support/raw.js';
import {NAME, counts, logLine} from './support/relay.js';
import {UNIT, bearer, explain, folderOf, keysOf, routerOf, sum} from './support/routing.js';
import {MODEL, Weir, user} from './support/weir.js';

const TURNS = 5;
const CONVERSATIONS = 4;
const EVENTS = ['--kv-events-listen', 'tcp://127.0.0.1:0'];
const STATE_TOKENS = 64; // what a recurrent state takes of the pool; events tell where there are some

async function replicaOf(t, ...args) {
  const replica = await Weir.engine(...args);
  t.after(() => replica.stop());
  return replica;
}

const targetOf = (replica, i) => ({
  name: `r${i + 1}`,
  http: {base_url: replica.base, model: MODEL},
  cache: {checkpoint_tokens: STATE_TOKENS, events: replica.events, replay: replica.replay},
  metrics: {interval_ms: 100},
});

async function clusterOf(t, change) {
  const replicas = [await replicaOf(t, ...EVENTS), await replicaOf(t, ...EVENTS)];
  return {replicas, weir: await routerOf(t, replicas.map(targetOf), change)};
}

// Keys of one tenant: requests of `first1` and `first2` may go to one replica alone, those of `free` to both.
const withKeys = (config, dir) => ({
  ...config,
  auth: keysOf({first1: 'one', first2: 'one', free: 'one'}, dir),
  rules: [1, 2].map((n) => ({name: `first${n}`, when: {keys: [`first${n}`]}, allow: [`r${n}`]})),
});

const words = (seed, count) =>
  Array.from({length: count}, (_, i) => `w${(seed * 7919 + i * 104_729) % 9973}`).join(' ');
const held = (tokens) => Math.floor(tokens / UNIT) * UNIT;

// One answer with its line of the access log.
async function chat(weir, messages, headers = {}) {
  const answer = await weir.post('/v1/chat/completions', {model: NAME, messages, max_tokens: 8}, headers);
  const body = await answer.json();
  assert.equal(answer.status, 200, JSON.stringify(body));
  const line = await logLine(weir, {headers: Object.fromEntries(answer.headers)});
  return {
    target: line.target,
    predicted: line.predicted_cached_tokens ?? 0,
    logged: line.cached_tokens,
    cached: body.usage.prompt_tokens_details?.cached_tokens ?? 0,
    prompt: body.usage.prompt_tokens,
    reply: body.choices[0].message.content ?? '',
  };
}

// What each target holds of a chat by its own word: {r1: tokens}.
async function confirmed(weir, messages, who = {}) {
  const {candidates} = await explain(weir, {messages}, who);
  const known = candidates.filter(({evidence}) => evidence === 'confirmed');
  return Object.fromEntries(known.map((c) => [c.target, c.reusable_tokens]));
}

async function metricsOf(url, headers = {}) {
  const answer = await fetch(`${url}/metrics`, {headers});
  assert.equal(answer.status, 200);
  const line = /^(vllm:\w+)\{([^}]*)\} (\S+)$/;
  const rows = (await answer.text()).split('\n').flatMap((row) => (line.test(row) ? [line.exec(row)] : []));
  return Object.fromEntries(rows.map(([, name, labels, value]) => [name, {labels, value: Number(value)}]));
}

describe('two replicas behind weir', {timeout: 240_000}, () => {
  test('follow-ups go where their prefix is, and what is promised is reused', async (t) => {
    const {weir} = await clusterOf(t, withKeys);
    const chats = Array.from({length: CONVERSATIONS}, (_, i) => ({
      messages: [user(`${i} ${words(i, 60)}`)],
      home: `r${1 + (i % 2)}`,
      prefix: 0,
    }));
    const all = [];
    for (let turn = 0; turn < TURNS; ++turn) {
      for (const [i, one] of chats.entries()) {
        const key = turn === 0 ? `first${one.home.at(-1)}` : 'free';
        const got = await chat(weir, one.messages, bearer(key));
        const said = `conversation ${i}, turn ${turn}: ${JSON.stringify(got)}`;
        all.push(got);
        assert.equal(got.logged, got.cached, said);
        assert.equal(got.cached, one.prefix, said);
        assert.equal(got.predicted, got.cached, said);
        assert.equal(got.target, one.home, said);
        one.prefix = held(got.prompt);
        one.messages = [
          ...one.messages,
          {role: 'assistant', content: got.reply},
          user(`${turn} ${words(100 * turn + i, 30)}`),
        ];
        await eventually(`${said}: its prefix confirmed`, async () => {
          const known = await confirmed(weir, one.messages, {tenant: 'one', key: 'free'});
          return known[one.home] === one.prefix;
        });
      }
    }
    const [promised, reused] = [sum(all.map((got) => got.predicted)), sum(all.map((got) => got.cached))];
    t.diagnostic(`${promised} tokens promised, ${reused} reused of ${sum(all.map((got) => got.prompt))}`);
    assert.ok(reused > 1_000);
    assert.equal(promised, reused);
  });

  test('a replica that begins anew is known to hold nothing', async (t) => {
    const before = await Weir.engine(...EVENTS);
    const weir = await routerOf(t, [{...targetOf(before, 0), metrics: undefined}]); // by its events alone
    const messages = [user(words(1, 100))];
    const {prompt} = await chat(weir, messages);
    await eventually('the prefix confirmed', async () => {
      return (await confirmed(weir, messages)).r1 === held(prompt - 1);
    });
    const at = ['--listen', new URL(before.url).host];
    at.push('--kv-events-listen', before.events, '--kv-replay-listen', before.replay);
    await before.stop();
    await replicaOf(t, ...at);
    await eventually('the restart to be seen', async () => (await confirmed(weir, messages)).r1 === undefined);
    const got = await chat(weir, messages);
    assert.deepEqual([got.predicted, got.cached], [0, 0]);
  });

  test("its load is read under vLLM's names", async (t) => {
    const {replicas, weir} = await clusterOf(t);
    const messages = [user(words(2, 100))];
    for (let i = 0; i < 2; ++i) await chat(weir, messages);
    await eventually('both to be read', async () => {
      const read = await counts(weir, 'weir_scrapes_total', 'target', {outcome: 'ok'});
      return read.r1 > 0 && read.r2 > 0;
    });
    assert.deepEqual(await counts(weir, 'weir_scrapes_total', 'target', {outcome: 'failed'}), {});
    const capacity = await counts(weir, 'weir_target_load', 'target', {what: 'capacity_tokens'});
    const told = await Promise.all(replicas.map((replica) => metricsOf(replica.url)));
    for (const [i, metrics] of told.entries()) {
      const blocks = Number(/num_gpu_blocks="(\d+)"/.exec(metrics['vllm:cache_config_info'].labels)[1]);
      assert.equal(capacity[`r${i + 1}`], 64 * blocks);
      assert.match(metrics['vllm:num_requests_running'].labels, /model_name="weir-tiny"/);
      for (const name of ['num_requests_running', 'num_requests_waiting', 'kv_cache_usage_perc'])
        assert.equal(metrics[`vllm:${name}`].value, 0, name);
    }
    const total = (name) => sum(told.map((metrics) => metrics[`vllm:${name}`].value));
    assert.ok(total('prefix_cache_hits_total') >= UNIT);
    assert.ok(total('prefix_cache_queries_total') > total('prefix_cache_hits_total'));
    assert.equal(total('prompt_tokens_total'), total('prefix_cache_queries_total'));
    assert.ok(total('generation_tokens_total') > 0);
  });
});

describe('a replica for itself', {timeout: 120_000}, () => {
  test("a caller's salts keep prompts apart, and none is shared by all", async (t) => {
    const replica = await replicaOf(t);
    const messages = [user(words(3, 100))];
    const reuse = [];
    for (const cache_salt of ['a', 'b', 'a', undefined, undefined, 'b"\\', 'b"\\']) {
      const {usage} = await replica.chat({messages, max_tokens: 1, cache_salt});
      reuse.push(usage.prompt_tokens_details.cached_tokens > 0);
    }
    assert.deepEqual(reuse, [false, false, true, false, true, false, true]);
  });

  test('with a key, nobody without it', async (t) => {
    const file = path.join(folderOf(), 'key');
    writeFileSync(file, 'sesame-0123456789\n', {mode: 0o600});
    const replica = await replicaOf(t, '--api-key-file', file, '--served-model-name', 'mine');
    for (const [route, headers, status] of [
      ['/v1/models', {}, 401],
      ['/metrics', {}, 401],
      ['/v1/models', bearer('another'), 401],
      ['/metrics', bearer('sesame-0123456789'), 200],
      ['/health', {}, 200],
    ])
      assert.equal((await fetch(`${replica.url}${route}`, {headers})).status, status, route);
    const models = await fetch(`${replica.base}/models`, {headers: bearer('sesame-0123456789')});
    assert.deepEqual((await models.json()).data.map(({id}) => id), ['mine']);
  });

  test('what cannot be is refused by its option', () => {
    const weir = (...args) =>
      spawnSync(process.env.WEIR_BIN, ['engine', ...args], {encoding: 'utf8', timeout: 20_000});
    for (const [args, said] of [
      [['--listen', '0.0.0.0:0'], /--listen: 0\.0\.0\.0 is reached by other machines: name an --api-key/],
      [['--listen', 'here'], /--listen: 'here' is not ADDRESS:PORT/],
      [['--model', '/nowhere'], /--model: \/nowhere does not exist/],
      [['--kv-events-listen', 'udp://127.0.0.1:1'], /--kv-events-listen: 'udp:.*' is not tcp:/],
      [['--kv-replay-listen', 'tcp://127.0.0.1:0'], /--kv-replay-listen: .*name that too/],
      [['--api-key-file', '/nowhere'], /--api-key-file: \/nowhere/],
      [['--spacing-tokens', '65'], /--spacing-tokens: 65 is no multiple/],
    ]) {
      const {status, stderr} = weir(...args);
      assert.match(stderr, said);
      assert.equal(status, 2, args.join(' '));
    }
    const help = execFileSync(process.env.WEIR_BIN, ['engine', '--help'], {encoding: 'utf8'});
    assert.match(help, /--kv-events-listen[\s\S]*cache_salt keeps its prompts apart/);
  });
});

const HINTED = 2200; // tokens: enough for weir to think the end of a prompt worth a checkpoint
const idsOf = (seed, count) => Array.from({length: count}, (_, i) => (seed * 31 + i * 7) % 2000);
const hit = async (replica, kind) =>
  (await replica.metric(new RegExp(`^weir_engine_cached_tokens_total\\{.*kind="${kind}"`)))[0];

describe('hints', {timeout: 120_000}, () => {
  const ask = async (to, prompt, fields = {}) => {
    const model = to.config ? NAME : MODEL;
    const answer = await to.post('/v1/completions', {model, prompt, max_tokens: 1, ...fields});
    const body = await answer.json();
    assert.equal(answer.status, 200, JSON.stringify(body));
    return body.usage.prompt_tokens_details?.cached_tokens ?? 0;
  };

  test('a client’s are used, at a replica alone and through weir', async (t) => {
    const replica = await replicaOf(t);
    const weir = await routerOf(t, [targetOf(replica, 0)]);
    for (const [i, to] of [replica, weir].entries()) {
      const before = await hit(replica, 'hint');
      const shared = idsOf(i + 1, 300);
      await ask(to, [...shared, ...idsOf(50, 40)], {weir_checkpoint_at: [200, 1_000_000]});
      assert.equal(await ask(to, [...shared, ...idsOf(60, 40)]), 192); // 200 in whole units
      assert.equal((await hit(replica, 'hint')) - before, 192);
      const plain = idsOf(i + 11, 300);
      await ask(to, [...plain, ...idsOf(50, 40)]);
      assert.equal(await ask(to, [...plain, ...idsOf(60, 40)]), 0);
    }
    const {status} = await weir.post('/v1/completions', {model: NAME, prompt: 'x', weir_checkpoint_at: [0]});
    assert.equal(status, 400);
  });

  test('weir’s own reach a replica that is said to take them', async (t) => {
    const replica = await replicaOf(t);
    const target = targetOf(replica, 0);
    const cache = {checkpoint_tokens: 320, retention: 'prompt_end'};
    for (const [i, hints] of [false, true].entries()) {
      const weir = await routerOf(t, [{...target, cache: {...cache, hints}}]);
      const prompt = idsOf(i + 20, HINTED);
      await ask(weir, prompt);
      const before = await hit(replica, 'hint');
      const reused = await ask(weir, [...prompt, ...idsOf(70, 100)]);
      assert.equal(reused, held(HINTED));
      assert.equal((await hit(replica, 'hint')) - before, hints ? reused : 0);
    }
  });
});
