// What an API key may use: requests and tokens a minute, requests at once, money. Cases carry the names of the
// faults that users of other gateways reported.
import assert from 'node:assert/strict';
import {describe, test} from 'node:test';
import OpenAI from 'openai';

import {chat, headers, limited, refused, relayWith, used, withKeys} from './support/limits.js';
import {NAME, chatBody, inParallel, logLine, relayOf, startRelay, streamBody, target, upstreamOf} from './support/relay.js';
import {bearer, folderOf, keysOf, sum} from './support/routing.js';
import {chatEvents, chatReply, jsonReply, sleep, sse} from './support/upstream.js';

describe('limits: requests', {timeout: 120_000}, () => {
  test('H1: 1,000 requests at once on 100 a minute: 100 pass, and what the minute gives back', async (t) => {
    const {weir, upstream} = await relayWith(t, {a: limited({requests_per_min: 100})});
    const statuses = [];
    const begun = performance.now();
    await inParallel(Array.from({length: 1_000}), 200, async () => {
      const answer = await chat(weir, 'a');
      await answer.arrayBuffer();
      statuses.push(answer.status);
    });
    const took_s = (performance.now() - begun) / 1000;
    const passed = statuses.filter((s) => s === 200).length;
    t.diagnostic(`${passed} of 1000 in ${took_s.toFixed(2)} s`);
    assert.equal(passed, upstream.requests.length);
    assert.equal(statuses.filter((s) => s === 429).length, 1_000 - passed);
    assert.ok(passed >= 100 && passed <= 100 + Math.floor(took_s / 0.6), `${passed} in ${took_s} s`);
  });

  test('H2, H7: each key has its own limits, from its first request on', async (t) => {
    const {weir} = await relayWith(t, {a: limited({requests_per_min: 2}), b: limited({requests_per_min: 1}), c: 't'});
    const statuses = async (key, n) => {
      const out = [];
      for (let i = 0; i < n; ++i) out.push((await chat(weir, key)).status);
      return out;
    };
    assert.deepEqual(await statuses('a', 3), [200, 200, 429]);
    assert.deepEqual(await statuses('b', 2), [200, 429]);
    assert.deepEqual(await statuses('c', 5), [200, 200, 200, 200, 200]);
  });

  test('H2: a reload changes limits and forgets nothing that was used', async (t) => {
    const {weir} = await relayWith(t, {a: limited({requests_per_min: 3})});
    for (let i = 0; i < 3; ++i) assert.equal((await chat(weir, 'a')).status, 200);
    const config = structuredClone(weir.config);
    config.auth.keys[0].limits.requests_per_min = 6;
    weir.configure(config);
    weir.child.kill('SIGHUP');
    while (!weir.log.includes('reloaded')) await sleep(10);
    const statuses = [];
    for (let i = 0; i < 5; ++i) statuses.push((await chat(weir, 'a')).status);
    assert.ok(statuses.filter((s) => s === 200).length <= 3, `${statuses}`);
    assert.equal(statuses.at(-1), 429);
  });

  test('H11: headers and the time to wait are true', async (t) => {
    const {weir} = await relayWith(t, {a: limited({requests_per_min: 60})});
    const first = headers(await chat(weir, 'a'));
    assert.equal(first['x-ratelimit-limit-requests'], '60');
    assert.equal(first['x-ratelimit-remaining-requests'], '59');
    assert.match(first['x-ratelimit-reset-requests'], /^(1s|999ms|1\.\d+s)$/);
    let last;
    do last = await chat(weir, 'a');
    while (last.status === 200);
    const error = await refused(last, 429, 'rate_limit_exceeded');
    assert.equal(error.type, 'requests');
    const said = headers(last);
    assert.equal(said['x-ratelimit-remaining-requests'], '0');
    assert.equal(said['x-should-retry'], 'true');
    const wait_ms = Number(said['retry-after-ms']);
    assert.ok(wait_ms > 0 && wait_ms <= 1_000, `${wait_ms}`);
    assert.equal(said['retry-after'], '1');
    await sleep(wait_ms + 5);
    assert.equal((await chat(weir, 'a')).status, 200);
  });

  test('an SDK waits as it is told and succeeds', async (t) => {
    const {weir} = await relayWith(t, {a: limited({requests_per_min: 120})});
    const client = new OpenAI({baseURL: weir.base, apiKey: 'a', maxRetries: 2});
    while ((await chat(weir, 'a')).status === 200);
    const done = await client.chat.completions.create(chatBody());
    assert.equal(done.choices[0].message.content, 'Nairobi');
  });

  test('requests at once', async (t) => {
    const held = [];
    const {weir} = await relayWith(t, {a: limited({concurrent: 2})}, {
      handler: (request, socket) => void held.push(() => socket.write(jsonReply(chatReply()))),
    });
    const running = [chat(weir, 'a'), chat(weir, 'a')];
    while (held.length < 2) await sleep(5);
    const third = await chat(weir, 'a');
    await refused(third, 429, 'rate_limit_exceeded');
    assert.equal(headers(third)['x-should-retry'], 'true');
    for (const answer of held.splice(0)) answer();
    for (const answer of await Promise.all(running)) assert.equal(answer.status, 200);
    const fourth = chat(weir, 'a');
    while (held.length < 1) await sleep(5);
    held[0]();
    assert.equal((await fourth).status, 200);
  });

  test('an aborted request gives its place back', async (t) => {
    const {weir, upstream} = await relayWith(t, {a: limited({concurrent: 1})}, {handler: () => {}});
    for (let i = 0; i < 5; ++i) {
      const abort = new AbortController();
      const gone = fetch(`${weir.url}/v1/chat/completions`, {
        method: 'POST',
        headers: {'content-type': 'application/json', ...bearer('a')},
        body: JSON.stringify(chatBody()),
        signal: abort.signal,
      }).catch(() => {});
      while (upstream.requests.length < i + 1) await sleep(5);
      abort.abort();
      await gone;
      await sleep(150);
    }
  });

  test('a restart does not make minutes new', async (t) => {
    const upstream = await upstreamOf(t, used());
    const dir = folderOf();
    const change = withKeys({a: limited({requests_per_min: 20})});
    const first = await startRelay([target(upstream)], (config) => change(config, dir));
    for (let i = 0; i < 20; ++i) assert.equal((await chat(first, 'a')).status, 200);
    await sleep(3_100); // a checkpoint is written every two seconds
    first.child.kill('SIGKILL');
    await first.ended;
    const again = await relayOf(t, [target(upstream)], () => ({...first.config}));
    const statuses = [];
    for (let i = 0; i < 20; ++i) statuses.push((await chat(again, 'a')).status);
    const passed = statuses.filter((s) => s === 200).length;
    t.diagnostic(`${passed} of 20 passed again`);
    assert.ok(passed <= 5, `${statuses}`);
  });
});

describe('limits: tokens', {timeout: 120_000}, () => {
  // A prompt of 6 bytes of text; keyed by text, so that the body's bytes bound it.
  const bytes = (fields) => Buffer.byteLength(JSON.stringify(chatBody(fields)));

  test('what may be used is set aside, what was used is counted', async (t) => {
    const {weir} = await relayWith(t, {a: limited({tokens_per_min: 100_000})});
    const first = headers(await chat(weir, 'a', {max_tokens: 1_000}));
    const aside = bytes({max_tokens: 1_000}) + 1_000;
    assert.equal(first['x-ratelimit-limit-tokens'], '100000');
    assert.equal(Number(first['x-ratelimit-remaining-tokens']), 100_000 - aside);
    const second = headers(await chat(weir, 'a', {max_tokens: 1_000}));
    const left = Number(second['x-ratelimit-remaining-tokens']);
    // The first one used 15 tokens; nothing else is missing, or less where the minute went on.
    assert.ok(left >= 100_000 - aside - 15 - 1 && left <= 100_000 - aside, `${left}`);
  });

  test('more than the whole minute never passes and says so', async (t) => {
    const {weir, upstream} = await relayWith(t, {a: limited({tokens_per_min: 2_000})});
    const answer = await chat(weir, 'a', {max_tokens: 2_000});
    const error = await refused(answer, 400, 'request_exceeds_limit');
    assert.match(error.message, /2000 .*no tokenizer for this model and counts a token for each byte/);
    assert.equal(headers(answer)['x-should-retry'], 'false');
    assert.equal(headers(answer)['retry-after'], undefined);
    assert.equal(upstream.requests.length, 0);
    assert.equal((await logLine(weir, {headers: headers(answer)})).estimated, true);
    assert.equal((await chat(weir, 'a', {max_tokens: 100})).status, 200);
  });

  test('choices and prompts multiply what may be used', async (t) => {
    const {weir} = await relayWith(t, {a: limited({tokens_per_min: 10_000})});
    await refused(await chat(weir, 'a', {max_tokens: 100, n: 100}), 400, 'request_exceeds_limit');
    await refused(await chat(weir, 'a', {max_tokens: 1e300}), 400, null);
    // What a target reads as a number counts, or is refused.
    for (const fields of [{n: '100'}, {best_of: '100'}, {max_tokens: '100000'}, {max_completion_tokens: [1]}, {n: true}])
      assert.equal((await chat(weir, 'a', fields)).status, 400, JSON.stringify(fields));
    const text = JSON.stringify(chatBody({max_tokens: 100, n: 7})).replace('"n":7', '"n":1e2,"seed":123456789012345678901234567890');
    await refused(await weir.post('/v1/chat/completions', text, bearer('a')), 400, 'request_exceeds_limit');
    await refused(await chat(weir, 'a', {max_completion_tokens: 10_001, max_tokens: 1}), 400, 'request_exceeds_limit');
    const many = {model: NAME, prompt: Array(100).fill('x'), max_tokens: 100};
    await refused(await weir.post('/v1/completions', many, bearer('a')), 400, 'request_exceeds_limit');
  });

  test('a failed request gives its tokens back', async (t) => {
    const {weir} = await relayWith(t, {a: limited({tokens_per_min: 5_000})}, {
      handler: (request, socket) => socket.destroy(),
    });
    for (let i = 0; i < 8; ++i) {
      const answer = await chat(weir, 'a', {max_tokens: 2_000});
      assert.equal(answer.status, 502, await answer.text());
    }
  });

  test('a target that answers with more than was set aside is charged in full', async (t) => {
    const usage = {prompt_tokens: 3_000, completion_tokens: 5_900, total_tokens: 8_900};
    const {weir} = await relayWith(t, {a: limited({tokens_per_min: 6_000})}, {handler: used(usage)});
    assert.equal((await chat(weir, 'a', {max_tokens: 100})).status, 200);
    const error = await refused(await chat(weir, 'a', {max_tokens: 100}), 429, 'rate_limit_exceeded');
    assert.equal(error.type, 'tokens');
  });
});

describe('limits: money', {timeout: 120_000}, () => {
  const costOf = async (weir, answer) => {
    await answer.arrayBuffer();
    return logLine(weir, {headers: headers(answer)});
  };

  test('D6: cached, written, fresh and output tokens have their own price', async (t) => {
    const usage = {
      prompt_tokens: 87_000,
      completion_tokens: 1_000,
      prompt_tokens_details: {cached_tokens: 80_000, cache_write_tokens: 5_000},
    };
    const {weir} = await relayWith(t, {a: 't'}, {handler: used(usage)});
    const line = await costOf(weir, await chat(weir, 'a'));
    assert.equal(line.cost_usd, 0.0405);
    assert.equal(line.unpriced, undefined);
  });

  test('D8: cached tokens without a price cost what fresh ones do, and are marked', async (t) => {
    const usage = {prompt_tokens: 1_000, completion_tokens: 0, prompt_tokens_details: {cached_tokens: 900}};
    const price = {fresh_usd_per_mtok: 2, output_usd_per_mtok: 8};
    const {weir} = await relayWith(t, {a: 't'}, {handler: used(usage), price});
    const line = await costOf(weir, await chat(weir, 'a'));
    assert.equal(line.cost_usd, 0.002);
    assert.equal(line.unpriced, true);
  });

  test('H4, H5: 200 requests at once never spend more than the budget', async (t) => {
    // Each may cost a cent: 1,250 tokens of output, and a little for its prompt.
    const usage = {prompt_tokens: 10, completion_tokens: 1_240};
    const {weir, upstream} = await relayWith(t, {a: limited({usd_per_day: 1})}, {handler: used(usage)});
    const lines = [];
    const statuses = [];
    await inParallel(Array.from({length: 200}), 200, async () => {
      const answer = await chat(weir, 'a', {max_tokens: 1_250});
      statuses.push(answer.status);
      if (answer.status !== 200) return refused(answer, 429, 'insufficient_quota');
      lines.push(await costOf(weir, answer));
    });
    const spent = sum(lines.map((line) => line.cost_usd));
    t.diagnostic(`${lines.length} passed, $${spent.toFixed(4)} of $1 spent`);
    assert.equal(lines.length, upstream.requests.length);
    assert.ok(spent <= 1 && spent > 0.9, `${spent}`);
    assert.ok(statuses.filter((s) => s === 429).length >= 99);
  });

  test('an exhausted budget is told as SDKs know it, with the time at which it resets', async (t) => {
    const {weir} = await relayWith(t, {a: limited({usd_per_day: 0.02})}, {
      handler: used({prompt_tokens: 10, completion_tokens: 2_000}),
    });
    assert.equal((await chat(weir, 'a', {max_tokens: 2_000})).status, 200);
    const answer = await chat(weir, 'a', {max_tokens: 2_000});
    const error = await refused(answer, 429, 'insufficient_quota');
    assert.equal(error.type, 'insufficient_quota');
    const to_midnight = 86_400 - (Math.floor(Date.now() / 1000) % 86_400);
    const said = headers(answer);
    assert.ok(Math.abs(Number(said['retry-after']) - to_midnight) <= 2, said['retry-after']);
    assert.equal(said['x-should-retry'], 'false');
    await refused(await chat(weir, 'a', {max_tokens: 10_000}), 400, 'request_exceeds_limit');
    assert.equal((await chat(weir, 'a', {max_tokens: 10})).status, 200);
  });

  test('a request without max_tokens gets the number that was set aside', async (t) => {
    const {weir, upstream} = await relayWith(t, {a: limited({usd_per_day: 1}), b: 't'}, {
      more: {limits: {default_output_tokens: 777}},
    });
    await chat(weir, 'a');
    await chat(weir, 'a', {max_tokens: 5});
    await weir.post('/v1/completions', {model: NAME, prompt: 'x'}, bearer('a'));
    await chat(weir, 'b');
    const sent = upstream.requests.map((r) => JSON.parse(r.body));
    assert.equal(sent[0].max_completion_tokens, 777);
    assert.deepEqual([sent[1].max_tokens, sent[1].max_completion_tokens], [5, undefined]);
    assert.equal(sent[2].max_tokens, 777);
    assert.deepEqual([sent[3].max_tokens, sent[3].max_completion_tokens], [undefined, undefined]);
  });

  test('failed and aborted requests leave nothing reserved', async (t) => {
    let act = (request, socket) => socket.destroy();
    const {weir, upstream} = await relayWith(t, {a: limited({usd_per_day: 0.1})}, {
      handler: (request, socket) => act(request, socket),
    });
    for (let i = 0; i < 20; ++i) assert.equal((await chat(weir, 'a', {max_tokens: 6_000})).status, 502);
    act = () => {};
    for (let i = 0; i < 20; ++i) {
      const abort = new AbortController();
      const before = upstream.requests.length;
      const gone = fetch(`${weir.url}/v1/chat/completions`, {
        method: 'POST',
        headers: {'content-type': 'application/json', ...bearer('a')},
        body: JSON.stringify(chatBody({max_tokens: 6_000})),
        signal: abort.signal,
      }).catch(() => {});
      while (upstream.requests.length === before) await sleep(5);
      abort.abort();
      await gone;
      await sleep(120);
    }
    act = used();
    assert.equal((await chat(weir, 'a', {max_tokens: 12_000})).status, 200);
  });

  test('a stream that breaks is charged for what went out', async (t) => {
    const words = Array.from({length: 40}, (_, i) => `w${i} `);
    const whole = sse(chatEvents(words));
    const {weir} = await relayWith(t, {a: limited({usd_per_day: 1})}, {
      handler: (request, socket) => {
        socket.write(whole.subarray(0, Math.floor(whole.length / 2)));
        setTimeout(() => socket.destroy(), 50);
      },
    });
    const answer = await weir.post('/v1/chat/completions', streamBody({max_tokens: 100}), bearer('a'));
    await answer.text().catch(() => {});
    const line = await logLine(weir, {headers: headers(answer)});
    assert.ok(line.cost_usd > 10 * 8e-6 && line.cost_usd < 100 * 8e-6 + 500 * 2e-6, `${line.cost_usd}`);
  });

  test('usage beyond all reason is clamped and stays countable', async (t) => {
    for (const count of [-1, 2 ** 63, 1e308, '7', null, [1]]) {
      const usage = {prompt_tokens: count, completion_tokens: count};
      const {weir} = await relayWith(t, {a: limited({usd_per_day: 1})}, {handler: used(usage)});
      const line = await costOf(weir, await chat(weir, 'a', {max_tokens: 10}));
      assert.ok(Number.isFinite(line.cost_usd) && line.cost_usd >= 0, JSON.stringify([count, line]));
    }
  });

  test('what was spent survives kill -9, and what was under way is charged as reserved', async (t) => {
    const upstream = await upstreamOf(t, (request, socket) => {
      if (JSON.parse(request.body).max_tokens === 1_000) return;
      socket.write(jsonReply(chatReply('x', {usage: {prompt_tokens: 0, completion_tokens: 5_000}})));
    });
    const change = withKeys({a: limited({usd_per_day: 0.1})});
    const dir = folderOf();
    const targets = [{...target(upstream), price: {fresh_usd_per_mtok: 0, output_usd_per_mtok: 8}}];
    const first = await startRelay(targets, (config) => change(config, dir));
    const ledger = first.config.auth.ledger_dir;
    assert.equal((await chat(first, 'a', {max_tokens: 5_000})).status, 200);
    const hung = chat(first, 'a', {max_tokens: 1_000}).catch(() => {});
    while (upstream.requests.length < 2) await sleep(5);
    await sleep(100);
    first.child.kill('SIGKILL');
    await first.ended;
    await hung;
    const again = await relayOf(t, targets, (config) => ({...first.config, admin: config.admin, listen: config.listen}));
    assert.equal(again.config.auth.ledger_dir, ledger);
    assert.match(again.log, /1 reservations were open when the last run ended; charged as reserved, \$0\.008/);
    // $0.04 and $0.008 of $0.1 are gone.
    await refused(await chat(again, 'a', {max_tokens: 6_600}), 429, 'insufficient_quota');
    assert.equal((await chat(again, 'a', {max_tokens: 6_400})).status, 200);
  });

  test('budgets need a ledger, and a ledger a secret', async (t) => {
    const config = (auth) => startRelay([{name: 'r1', http: {base_url: 'http://127.0.0.1:1/v1'}}], (c, dir) => ({
      ...c,
      auth: auth(dir),
    }));
    await assert.rejects(
      config((dir) => keysOf({a: limited({usd_per_day: 1})}, dir)),
      /auth\.keys\[0\]\.limits.*needs auth\.ledger_dir/s,
    );
    await assert.rejects(
      config((dir) => ({loopback_open: true, ledger_dir: `${dir}/l`})),
      /auth\.secret_file/,
    );
  });
});
