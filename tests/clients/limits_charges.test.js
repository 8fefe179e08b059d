// What a request of a key with limits is charged, and what is set aside for it. Cases carry the names of the
// faults that were found.
import assert from 'node:assert/strict';
import {describe, test} from 'node:test';

import {chat, headers, limited, refused, relayWith, withKeys} from './support/limits.js';
import {NAME, chatBody, logLine, relayOf, startRelay, streamBody, target, upstreamOf} from './support/relay.js';
import {bearer} from './support/routing.js';
import {LAST_CHUNK, PREAMBLE, chatReply, chunk, delta, event, head, jsonReply, sleep} from './support/upstream.js';

// A dollar's million tokens of prompt, a thousand dollars' of output: cheap prompts, dear answers.
const PRICE = {fresh_usd_per_mtok: 1, output_usd_per_mtok: 1_000};
const OUTPUT_USD = 1_000 / 1e6;
const RICH = {a: limited({usd_per_day: 1_000})};

const closeTo = (usd, tokens, what) => {
  const prompt = 1_000 / 1e6; // no body here has as many bytes
  assert.ok(usd >= tokens * OUTPUT_USD && usd <= tokens * OUTPUT_USD + prompt, `${what}: ${usd}`);
};

const lineOf = async (weir, answer) => {
  await answer.arrayBuffer().catch(() => {});
  return logLine(weir, {headers: headers(answer)});
};

// The log line of a request whose client saw no answer.
async function lineOfId(weir, id) {
  return logLine(weir, {headers: {'x-request-id': id}});
}

const withUsage = (json) => jsonReply(JSON.stringify(chatReply("hello")).replace(/"usage":\{[^}]*\}/, `"usage":${json}`));
const withoutUsage = (content) => {
  const reply = chatReply(content);
  delete reply.usage;
  return jsonReply(reply);
};

describe('what is set aside', {timeout: 120_000}, () => {
  test('n as a string, and n as 1e2 beside a number of more than 64 bits, bypass no budget', async (t) => {
    const {weir, upstream} = await relayWith(t, {a: limited({usd_per_day: 0.2}), b: 't'}, {price: PRICE});
    const raw = (key, text) =>
      weir.post('/v1/chat/completions', `{"model":"${NAME}","messages":[],"max_tokens":50,${text}}`, bearer(key));
    for (const key of ['a', 'b']) {
      for (const field of ['n', 'best_of', 'max_completion_tokens']) {
        const error = await refused(await raw(key, `"${field}":"100"`), 400, null);
        assert.equal(error.param, field);
      }
    }
    assert.equal(upstream.requests.length, 0);
    await refused(await raw('a', '"n":100'), 400, 'request_exceeds_limit');
    await refused(await raw('a', '"n":1e2'), 400, 'request_exceeds_limit');
    await refused(await raw('a', '"n":1e2,"seed":123456789012345678901234567890'), 400, 'request_exceeds_limit');
    for (const key of ['a', 'b']) await refused(await raw(key, '"n":123456789012345678901234567890'), 400, null);
    assert.equal(upstream.requests.length, 0);
    assert.equal((await raw('a', '"n":2.0,"seed":123456789012345678901234567890')).status, 200);
  });

  test('no field of a budgeted request contradicts its bound', async (t) => {
    const {weir, upstream} = await relayWith(t, RICH, {price: PRICE, more: {limits: {default_output_tokens: 777}}});
    const sent = async (fields, path = '/v1/chat/completions') => {
      const body = path === '/v1/completions' ? {model: NAME, prompt: 'x', ...fields} : chatBody(fields);
      assert.equal((await weir.post(path, body, bearer('a'))).status, 200);
      const {model, messages, prompt, ...rest} = JSON.parse(upstream.requests.at(-1).body);
      return rest;
    };
    assert.deepEqual(await sent({max_tokens: null}), {max_completion_tokens: 777, max_tokens: 777});
    assert.deepEqual(await sent({max_tokens: -1}), {max_completion_tokens: 777, max_tokens: 777});
    assert.deepEqual(await sent({max_tokens: 5, n_predict: -1}), {max_completion_tokens: 5, max_tokens: 5, n_predict: 5});
    assert.deepEqual(await sent({max_completion_tokens: 5}), {max_completion_tokens: 5});
    assert.deepEqual(await sent({max_completion_tokens: 5}, '/v1/completions'), {max_completion_tokens: 5, max_tokens: 5});
    assert.deepEqual(await sent({max_tokens: 0}, '/v1/completions'), {max_tokens: 0});
  });

  test('the dearest tier, and cached tokens dearer than fresh ones, are set aside', async (t) => {
    const tiers = [{prompt_tokens_min: 5, fresh_usd_per_mtok: 0, output_usd_per_mtok: 0}];
    const falling = await relayWith(t, {a: limited({usd_per_day: 0.09})}, {price: {...PRICE, tiers}});
    await refused(await chat(falling.weir, 'a', {max_tokens: 100}), 400, 'request_exceeds_limit');
    const price = {fresh_usd_per_mtok: 0, cached_usd_per_mtok: 1_000, output_usd_per_mtok: 0};
    const cached = await relayWith(t, {a: limited({usd_per_day: 0.01})}, {price});
    await refused(await chat(cached.weir, 'a', {max_tokens: 1}), 400, 'request_exceeds_limit');
  });

  test('an image by its address is not bounded by the bytes of the body', async (t) => {
    const image = (part) => ({max_tokens: 1, messages: [{role: 'user', content: [{type: 'text', text: 'what?'}, part]}]});
    const {weir, upstream} = await relayWith(t, {a: limited({tokens_per_min: 15_000})}, {price: PRICE});
    for (const part of [
      {type: 'image_url', image_url: {url: 'https://x.example/y.png'}},
      {type: 'video_url', video_url: {url: 'https://x.example/y.mp4'}},
      {image_url: 'https://x.example/y.png'},
    ]) {
      await refused(await chat(weir, 'a', image(part)), 400, 'request_exceeds_limit');
    }
    assert.equal((await chat(weir, 'a', image({type: 'text', text: 'more'}))).status, 200);
    assert.equal(upstream.requests.length, 1);
    const few = await relayWith(t, {a: limited({tokens_per_min: 15_000})}, {price: PRICE, more: {limits: {image_tokens: 1_000}}});
    assert.equal((await chat(few.weir, 'a', image({type: 'image_url', image_url: {url: 'https://x.example/y'}}))).status, 200);
  });

  test('a budget on a model of which no target has a price is a fault', async (t) => {
    const start = (models) =>
      startRelay([target({base: 'http://127.0.0.1:1'})], withKeys({a: limited({usd_per_day: 1}, models)}));
    await assert.rejects(start({}), /auth\.keys\[0\]\.limits: a budget bounds nothing on model 'fox'/);
    const {weir} = await relayWith(t, {a: 't'}, {price: {usd_per_hour: 1}});
    assert.match(weir.log, /no target of model 'fox' has a price: budgets of keys in the ledger do not bound it/);
  });
});

describe('what is charged', {timeout: 120_000}, () => {
  const streamOf = ({lineEnd = '\n', first = {}, count = 100, comments = 0, cut = false}) => (request, socket) => {
    socket.write(head(200, {'content-type': 'text/event-stream', 'transfer-encoding': 'chunked'}));
    const send = (value) => socket.write(chunk(event(value, {lineEnd})));
    send({...PREAMBLE, ...first});
    for (let i = 0; i < count; ++i) send(delta({content: `w${i} `}));
    for (let i = 0; i < comments; ++i) socket.write(chunk(Buffer.from(`: ping${lineEnd}${lineEnd}`)));
    if (cut) return void setTimeout(() => socket.destroy(), 50);
    send(delta({}, 'stop'));
    socket.write(chunk(Buffer.from(`data: [DONE]${lineEnd}${lineEnd}`)));
    return socket.write(LAST_CHUNK);
  };
  const streamed = async (t, shape) => {
    const {weir} = await relayWith(t, RICH, {price: PRICE, handler: streamOf(shape)});
    const answer = await weir.post('/v1/chat/completions', streamBody({max_tokens: 2_000}), bearer('a'));
    return (await lineOf(weir, answer)).cost_usd;
  };

  test('a stream without a report costs a token an event, however its lines end', async (t) => {
    for (const lineEnd of ['\n', '\r\n', '\r']) {
      for (const cut of [false, true]) closeTo(await streamed(t, {lineEnd, cut}), 100, JSON.stringify([lineEnd, cut]));
    }
  });

  test('comments cost nothing', async (t) => {
    closeTo(await streamed(t, {count: 3, comments: 1_000}), 3, 'comments');
  });

  test('an early report of nothing does not hide what came behind it', async (t) => {
    const first = (completion_tokens) => ({usage: {prompt_tokens: 10, completion_tokens}});
    closeTo(await streamed(t, {first: first(0), cut: true}), 100, 'cut');
    closeTo(await streamed(t, {first: first(1)}), 100, 'whole');
    closeTo(await streamed(t, {first: first(500), cut: true}), 500, 'more reported');
  });

  test('a whole answer without a report costs its bytes, up to what was set aside', async (t) => {
    let content = 'x'.repeat(40);
    const {weir} = await relayWith(t, RICH, {price: PRICE, handler: (request, socket) => void socket.write(withoutUsage(content))});
    closeTo((await lineOf(weir, await chat(weir, 'a', {max_tokens: 50}))).cost_usd, 40, 'bytes');
    content = 'x'.repeat(4_000);
    closeTo((await lineOf(weir, await chat(weir, 'a', {max_tokens: 50}))).cost_usd, 50, 'aside');
  });

  test('counts that cannot be meant are as if they were not reported', async (t) => {
    let usage;
    const {weir} = await relayWith(t, RICH, {price: PRICE, handler: (request, socket) => void socket.write(withUsage(usage))});
    for (const [completion, tokens] of [
      ['5.0', 5],
      ['0', 0],
      ['1e1', 10],
      ['1e18', 5],
      ['1000000000000000000', 5],
      ['18446744073709551615', 5],
      ['99999999999999999999999', 5],
      ['4294967295', 5],
      ['-5', 5],
      ['2.5', 5],
      ['"7"', 5],
      ['null', 5],
    ]) {
      usage = `{"prompt_tokens":10,"completion_tokens":${completion}}`;
      const {cost_usd} = await lineOf(weir, await chat(weir, 'a', {max_tokens: 50}));
      closeTo(cost_usd, tokens, completion);
    }
    usage = '{"prompt_tokens":10,"total_tokens":60}';
    closeTo((await lineOf(weir, await chat(weir, 'a', {max_tokens: 50}))).cost_usd, 5, 'missing');
  });

  test('one absurd report locks a key out for no more than a minute', async (t) => {
    for (const tokens_per_min of [500, 100_000]) {
      const reply = withUsage('{"prompt_tokens":10,"completion_tokens":99999999}');
      const {weir} = await relayWith(t, {a: limited({tokens_per_min})}, {price: PRICE, handler: (request, socket) => void socket.write(reply)});
      assert.equal((await chat(weir, 'a', {max_tokens: 1})).status, 200);
      const next = await chat(weir, 'a', {max_tokens: 1});
      await refused(next, 429, 'rate_limit_exceeded');
      const wait_s = Number(headers(next)['retry-after']);
      assert.ok(wait_s > 55 && wait_s <= 120, `${tokens_per_min}: ${wait_s}`);
    }
  });
});

describe('what is charged for a request that ends early', {timeout: 120_000}, () => {
  const DEAR_PROMPT = {fresh_usd_per_mtok: 1_000, output_usd_per_mtok: 1_000};
  const bytes = Buffer.byteLength(JSON.stringify(chatBody({max_tokens: 50})));
  const startedWith = (t, handler, more) => relayWith(t, RICH, {price: DEAR_PROMPT, handler, more});
  const leave = async (weir, upstream, id) => {
    const abort = new AbortController();
    const gone = fetch(`${weir.url}/v1/chat/completions`, {
      method: 'POST',
      headers: {'content-type': 'application/json', 'x-request-id': id, ...bearer('a')},
      body: JSON.stringify(chatBody({max_tokens: 50})),
      signal: abort.signal,
    }).catch(() => {});
    while (upstream.requests.length === 0) await sleep(5);
    abort.abort();
    await gone;
    return lineOfId(weir, id);
  };
  const isPrompt = (line, what) => assert.ok(Math.abs(line.cost_usd - bytes / 1e3) < 1e-9, `${what}: ${JSON.stringify(line)}`);

  test('a client that leaves before a whole answer pays for its prompt', async (t) => {
    const {weir, upstream} = await startedWith(t, () => {});
    isPrompt(await leave(weir, upstream, 'left-before'), 'left');
  });

  test('a time limit of ours does not make the prompt free', async (t) => {
    const {weir} = await startedWith(t, () => {}, {limits: {request_timeout_ms: 300}});
    const answer = await chat(weir, 'a', {max_tokens: 50});
    assert.equal(answer.status, 504);
    isPrompt(await lineOf(weir, answer), 'late');
  });

  test('an answer that breaks pays for its prompt', async (t) => {
    for (const half of ['{"id', '<html>']) {
      const {weir} = await startedWith(t, (request, socket) => {
        socket.write(head(200, {'content-type': 'application/json', 'content-length': half === '<html>' ? 6 : 1_000}));
        socket.write(half);
        if (half !== '<html>') setTimeout(() => socket.destroy(), 50);
      });
      const answer = await chat(weir, 'a', {max_tokens: 50});
      assert.equal(answer.status, 502);
      isPrompt(await lineOf(weir, answer), half);
    }
  });

  test('an error status, an error event, a closed connection and one that never was cost nothing', async (t) => {
    const failures = {
      500: (request, socket) => void socket.write(jsonReply({error: {message: 'no'}}, {status: 500})),
      429: (request, socket) => void socket.write(jsonReply({error: {message: 'no'}}, {status: 429})),
      400: (request, socket) => void socket.write(jsonReply({error: {message: 'no'}}, {status: 400})),
      closed: (request, socket) => socket.destroy(),
      event: (request, socket) => {
        socket.write(head(200, {'content-type': 'text/event-stream', 'transfer-encoding': 'chunked'}));
        socket.write(chunk(event({error: {message: 'no', code: 500}})));
        socket.write(LAST_CHUNK);
      },
    };
    for (const [name, handler] of Object.entries(failures)) {
      const {weir, upstream} = await startedWith(t, handler);
      const answer = await chat(weir, 'a', {max_tokens: 50, stream: name === 'event'});
      assert.ok(answer.status >= 400, name);
      assert.equal((await lineOf(weir, answer)).cost_usd, 0, name);
      if (name !== 'closed') continue;
      await upstream.stop();
      assert.equal((await lineOf(weir, await chat(weir, 'a', {max_tokens: 50}))).cost_usd, 0, 'nobody there');
    }
  });
});

describe('what failover may spend', {timeout: 120_000}, () => {
  const DEAR = {fresh_usd_per_mtok: 1_000, output_usd_per_mtok: 1_000};
  const body = {max_tokens: 50, stream: true};
  const prompt = Buffer.byteLength(JSON.stringify(chatBody(body))) / 1e3; // dollars
  const once = prompt + 0.05;
  const breaks = (request, socket) => {
    socket.write(head(200, {'content-type': 'text/event-stream', 'transfer-encoding': 'chunked'}));
    socket.write(chunk(event(PREAMBLE)));
    setTimeout(() => socket.destroy(), 50);
  };

  async function pairWith(t, usd_per_day, second) {
    let asked = 0;
    const handler = (request, socket) => (++asked === 1 ? breaks : second)(request, socket);
    const upstreams = [await upstreamOf(t, handler), await upstreamOf(t, handler)];
    const targets = upstreams.map((upstream, i) => ({...target(upstream, {}, `r${i}`), price: DEAR}));
    const weir = await relayOf(t, targets, withKeys({a: limited({usd_per_day})}));
    return {weir, asked: () => asked};
  }

  test('a second attempt that the budget has no room for is not made', async (t) => {
    const {weir, asked} = await pairWith(t, once + prompt / 2, breaks);
    const answer = await chat(weir, 'a', body);
    assert.equal(answer.status, 502);
    const line = await lineOf(weir, answer);
    assert.ok(Math.abs(line.cost_usd - prompt) < 1e-9, JSON.stringify(line));
    assert.equal(asked(), 1);
  });

  test('one that it has room for is set aside anew, and both are charged', async (t) => {
    const {weir, asked} = await pairWith(t, once + prompt * 1.5, breaks);
    const line = await lineOf(weir, await chat(weir, 'a', body));
    assert.equal(asked(), 2);
    assert.ok(Math.abs(line.cost_usd - 2 * prompt) < 1e-9, JSON.stringify(line));
    const open = await weir.metric(/^weir_ledger_reservations_open /);
    assert.deepEqual(open, [0]);
  });
});
