// Targets that fail before the first content, each case named after the report that it stems from: the client
// sees the other target's answer, once and whole.
import assert from 'node:assert/strict';
import {writeFileSync} from 'node:fs';
import path from 'node:path';
import {describe, test} from 'node:test';

import {ask, start} from './support/client.js';
import {eventually} from './support/raw.js';
import {
  assertFailed,
  assertInterrupted,
  assertStream,
  attempts,
  chatBody,
  counts,
  logLine,
  relayOf,
  streamBody,
  target,
  upstreamOf,
} from './support/relay.js';
import {folderOf} from './support/routing.js';
import * as up from './support/upstream.js';

const OK_EVENTS = up.chatEvents(['a ', 'b'], {usage: false});
const OK_STREAM = OK_EVENTS.map((value) => up.event(value)).join('');
const answers = (request, socket) =>
  socket.write(JSON.parse(request.body).stream ? up.sse(OK_EVENTS) : up.jsonReply(up.chatReply()));

// Two targets; whichever is asked first does `first`, every later request is answered.
async function pairOf(t, first, {change = (config) => config, fields = [{}, {}], later = answers} = {}) {
  const asked = [];
  const handler = (name) => (request, socket) => {
    if (up.isProbe(request)) return socket.write(up.jsonReply({}));
    asked.push(name);
    return asked.length === 1 ? first(request, socket) : later(request, socket, name);
  };
  const names = ['r1', 'r2'];
  const upstreams = [];
  for (const name of names) upstreams.push(await upstreamOf(t, handler(name)));
  const targets = upstreams.map((upstream, i) => target(upstream, fields[i], names[i]));
  const weir = await relayOf(t, targets, change);
  return {weir, asked, upstreams};
}

const preamble = (socket) => socket.write(up.head(200, {...up.SSE_FIELDS, 'transfer-encoding': 'chunked'}) + up.chunk(up.event(up.PREAMBLE)));
const fails = (status, error, fields) => (request, socket) => socket.write(up.jsonReply({error}, {status, fields}));

const before_content = {
  'A1: an error as the first event of a stream': (request, socket) =>
    socket.write(up.sse([{error: {message: 'the engine died', code: 500}}])),
  'A2: a stream that ends behind its preamble': (request, socket) => {
    preamble(socket);
    socket.end();
  },
  'A2: a reset before the head': (request, socket) => up.reset(socket),
  'a 500': fails(500, {message: 'oops', type: 'server_error'}),
  'a 502': fails(502, {message: 'bad gateway'}),
  'a 503': fails(503, {message: 'loading'}),
  'a 529': fails(529, {message: 'overloaded', type: 'overloaded_error'}),
  'a 429': fails(429, {message: 'slow down', type: 'rate_limit_error'}),
  'A14: a 413 that speaks of tokens per minute': fails(413, {
    message: 'Request too large for model: Limit 30000 TPM, Requested 40000',
    code: 'rate_limit_exceeded',
  }),
  'a 404 without an error object': (request, socket) => socket.write(up.jsonReply('not found', {status: 404})),
  'a redirect': (request, socket) => socket.write(up.jsonReply({}, {status: 307, fields: {location: 'http://127.0.0.1:1/'}})),
  'nonsense': (request, socket) => socket.end('HTTP/9 what\r\n\r\n'),
  'a 200 that is no JSON': (request, socket) => socket.write(up.jsonReply('<html>', {status: 200})),
};

describe('failover before the first content', {timeout: 240_000}, () => {
  for (const [name, first] of Object.entries(before_content)) {
    for (const [kind, body] of Object.entries({whole: chatBody(), stream: streamBody()})) {
      test(`${name} (${kind})`, async (t) => {
        const {weir, asked} = await pairOf(t, first);
        const reply = await ask(weir, body);
        // A7: one preamble, of the target that answered.
        if (kind === 'stream' && reply.headers['content-type'].startsWith('text/event-stream')) assertStream(reply, OK_STREAM);
        else assert.equal(reply.json.choices[0].message.content, 'Nairobi', reply.text);
        assert.equal(asked.length, 2);
        assert.notEqual(asked[0], asked[1]);
        assert.deepEqual(await weir.metric(/^weir_request_retries_total/), [1]);
      });
    }
  }

  test('A10: nobody listens', async (t) => {
    const {weir, asked, upstreams} = await pairOf(t, answers);
    upstreams[0].server.close();
    for (const connection of upstreams[0].connections) connection.socket.destroy();
    for (let i = 0; i < 6; ++i) assert.equal((await ask(weir, chatBody())).status, 200);
    assert.deepEqual(asked, Array(6).fill('r2'));
    // Once it has failed often enough it is not even asked.
    const {connect_failed} = await attempts(weir, 'r1');
    assert.ok(connect_failed >= 1 && connect_failed <= 5, `${connect_failed}`);
  });

  test('A3, A8: behind the first content nothing is tried again', async (t) => {
    const {weir, asked} = await pairOf(t, (request, socket) => {
      preamble(socket);
      socket.write(up.chunk(up.event(up.delta({content: 'x'}))));
      setTimeout(() => up.reset(socket), 50);
    });
    const reply = await ask(weir, streamBody());
    assertInterrupted(reply, (before) => assert.match(String(before), /"content":"x"/));
    assert.equal(asked.length, 1);
  });

  test('a request that is at fault itself is answered by the first target', async (t) => {
    const {weir, asked} = await pairOf(t, fails(400, {message: 'no such field', type: 'invalid_request_error', param: 'x', code: null}));
    assertFailed(await ask(weir, chatBody()), 400, null);
    assert.equal(asked.length, 1);
  });

  test('no more than two attempts', async (t) => {
    const {weir, asked} = await pairOf(t, fails(500, {message: 'one'}), {later: fails(500, {message: 'two'})});
    const reply = await ask(weir, chatBody());
    assertFailed(reply, 500);
    assert.equal(reply.json.error.message, 'two');
    assert.equal(asked.length, 2);
  });

  test('retries cost no more than their budget', async (t) => {
    const change = (config) => ({...config, failover: {retry_percent: 0}});
    const {weir, asked} = await pairOf(t, fails(500, {message: 'one'}), {change});
    const reply = await ask(weir, chatBody());
    assertFailed(reply, 500);
    assert.equal(asked.length, 1);
    assert.deepEqual(await weir.metric(/^weir_request_retries_denied_total/), [1]);
    assert.equal((await logLine(weir, reply)).retry_denied, true);
  });
});

describe('failover by what a target says', {timeout: 240_000}, () => {
  test('429: another target is tried, the first one is left alone until its Retry-After', async (t) => {
    const {weir, asked} = await pairOf(t, fails(429, {message: 'slow down'}, {'retry-after': '2'}));
    for (let i = 0; i < 5; ++i) assert.equal((await ask(weir, chatBody())).status, 200);
    assert.deepEqual(asked.slice(1), Array(5).fill(asked[1]));
    await up.sleep(2_100);
    for (let i = 0; i < 12 && asked.filter((name) => name === asked[0]).length < 2; ++i) await ask(weir, chatBody());
    assert.ok(asked.slice(6).includes(asked[0]), `${asked}`);
  });

  test('429 of all targets is a 503 of ours with their Retry-After', async (t) => {
    const limited = fails(429, {message: 'Rate limit reached for org-secret'}, {'retry-after': '30'});
    const {weir} = await pairOf(t, limited, {later: limited});
    const reply = await ask(weir, chatBody());
    assertFailed(reply, 503, 'overloaded');
    assert.equal(reply.headers['retry-after'], '30');
    assert.doesNotMatch(reply.text, /org-secret/);
    const again = await ask(weir, chatBody());
    assertFailed(again, 503, 'overloaded');
    assert.ok(Number(again.headers['retry-after']) >= 25, again.headers['retry-after']);
  });

  const overflows = {
    vLLM: {message: "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens", type: 'BadRequestError', code: 400},
    SGLang: {message: "Requested token count exceeds the model's maximum context length of 4096 tokens.", type: 'BadRequestError', code: 400},
    OpenAI: {message: 'too long', type: 'invalid_request_error', code: 'context_length_exceeded'},
  };
  for (const [engine, error] of Object.entries(overflows)) {
    test(`A12: the context overflow of ${engine} goes to a larger window only`, async (t) => {
      const handler = (own) => (request, socket) => own(request, socket);
      const small = await upstreamOf(t, handler(fails(400, error)));
      const same = await upstreamOf(t, handler(answers));
      const large = await upstreamOf(t, handler(answers));
      const targets = [
        target(small, {context_tokens: 4096}, 'small'),
        target(same, {context_tokens: 4096}, 'same'),
        target(large, {context_tokens: 100_000}, 'large'),
      ];
      const only = (names) => (config) => ({...config, models: [{...config.models[0], targets: names}]});
      const weir = await relayOf(t, targets, only(['small', 'large']));
      for (let i = 0; i < 6; ++i) assert.equal((await ask(weir, chatBody())).status, 200);
      assert.ok(small.requests.length > 0);
      const without = await relayOf(t, targets, only(['small', 'same']));
      same.script(fails(400, error));
      assertFailed(await ask(without, chatBody()), 400, 'context_length_exceeded');
      assert.equal(small.requests.length + same.requests.length - 6, same.requests.length + small.requests.length - 6);
    });
  }

  test('A11: a key that is refused is taken out, the other one goes on', async (t) => {
    const file = path.join(folderOf(t), 'keys');
    writeFileSync(file, 'dead-key\ngood-key\n', {mode: 0o600});
    const used = [];
    const upstream = await upstreamOf(t, (request, socket) => {
      used.push(request.headers.authorization);
      if (request.headers.authorization !== 'Bearer dead-key') return answers(request, socket);
      return fails(401, {message: 'Incorrect API key provided: dead-key', code: 'invalid_api_key'})(request, socket);
    });
    const weir = await relayOf(t, [target(upstream, {api_key_file: file})]);
    for (let i = 0; i < 6; ++i) {
      const reply = await ask(weir, chatBody());
      assert.equal(reply.status, 200, reply.text);
    }
    assert.equal(used.filter((key) => key === 'Bearer dead-key').length, 1);
    assert.ok(!weir.log.includes('dead-key'));
  });

  for (const [name, error] of Object.entries({
    'a bad key': {message: 'Incorrect API key provided: sk-secret', code: 'invalid_api_key'},
    'a rate of ours': {message: 'Rate limit reached for org-secret', code: 'rate_limit_exceeded'},
    'our money': {message: 'org-secret exceeded its quota', type: 'insufficient_quota'},
  })) {
    test(`what an error event says of ${name} stays here`, async (t) => {
      const upstream = await upstreamOf(t, (request, socket) => void socket.write(up.sse([{error}])));
      const weir = await relayOf(t, [target(upstream)]);
      const reply = await ask(weir, streamBody());
      assert.ok([502, 503].includes(reply.status), `${reply.status}`);
      assert.doesNotMatch(reply.text, /secret/);
      assert.doesNotMatch(weir.log, /secret/);
    });
  }

  test('a 400 that quotes the words of a client takes no key out', async (t) => {
    const upstream = await upstreamOf(t, fails(400, {message: "temperature: not a number: 'insufficient balance'"}));
    const other = await upstreamOf(t, fails(400, {message: "temperature: not a number: 'insufficient balance'"}));
    const weir = await relayOf(t, [target(upstream, {}, 'r1'), target(other, {}, 'r2')]);
    assertFailed(await ask(weir, chatBody()), 400);
    assert.equal(upstream.requests.length + other.requests.length, 1);
  });

  test('a whole answer that is an error object is tried elsewhere', async (t) => {
    for (const bad of [{error: {message: 'the engine died', code: 502}}, {error: 'no'}]) {
      const {weir, asked} = await pairOf(t, (request, socket) => socket.write(up.jsonReply(bad)));
      assert.equal((await ask(weir, chatBody())).status, 200);
      assert.equal(asked.length, 2);
    }
  });

  test('A11: without a good key it is a 502 of ours, and the words about it stay here', async (t) => {
    const file = path.join(folderOf(t), 'keys');
    writeFileSync(file, 'dead-key\n', {mode: 0o600});
    const upstream = await upstreamOf(t, fails(401, {message: 'Incorrect API key provided: dead-key', code: 'invalid_api_key'}));
    const weir = await relayOf(t, [target(upstream, {api_key_file: file})]);
    for (let i = 0; i < 3; ++i) {
      const reply = await ask(weir, chatBody());
      assertFailed(reply, 502, 'upstream_failed');
      assert.doesNotMatch(reply.text, /dead-key/);
    }
  });
});

describe('failover: health', {timeout: 240_000}, () => {
  const failing = (config) => ({...config, failover: {failures: 2, open_ms: 600, slow_start_ms: 0, retry_percent: 100}});

  test('G5: a target that failed is left alone, probed by one request when its time is over, and used again', async (t) => {
    let broken = true;
    const bad = await upstreamOf(t, (request, socket) =>
      broken ? fails(500, {message: 'broken'})(request, socket) : answers(request, socket));
    const good = await upstreamOf(t, answers);
    const weir = await relayOf(t, [target(bad, {}, 'bad'), target(good, {}, 'good')], failing);
    for (let i = 0; i < 20; ++i) assert.equal((await ask(weir, chatBody())).status, 200);
    assert.equal(bad.requests.length, 2);
    await up.sleep(700);
    await Promise.all(Array.from({length: 20}, () => ask(weir, chatBody())));
    assert.equal(bad.requests.length, 3); // the probe
    broken = false;
    await up.sleep(1_400);
    for (let i = 0; i < 40; ++i) assert.equal((await ask(weir, chatBody())).status, 200);
    assert.ok(bad.requests.length > 10, `${bad.requests.length}`);
  });

  // A pair whose first target does `broken` until told otherwise; how often it was asked.
  async function brokenPair(t, broken, change = failing) {
    const bad = await upstreamOf(t, broken);
    const good = await upstreamOf(t, answers);
    const weir = await relayOf(t, [target(bad, {}, 'bad'), target(good, {}, 'good')], change);
    return {weir, bad};
  }

  test('a target that comes back takes requests while the other one is full', async (t) => {
    let broken = true;
    const back = await upstreamOf(t, (request, socket) =>
      broken ? fails(500, {message: 'broken'})(request, socket) : answers(request, socket));
    const held = [];
    const full = await upstreamOf(t, (request, socket) => (held.length === 0 ? held.push(socket) : answers(request, socket)));
    const change = (config) => ({...config, failover: {failures: 1, open_ms: 300, slow_start_ms: 60_000, retry_percent: 100}});
    const weir = await relayOf(t, [target(back, {}, 'back'), target(full, {connections: 1}, 'full')], change);
    t.after(() => held.forEach((socket) => socket.destroy()));
    const early = [ask(weir, chatBody()), ask(weir, chatBody())]; // one is held, one meets the broken target
    await eventually('it is held', () => held.length === 1 && back.requests.length > 0);
    broken = false;
    await up.sleep(400);
    const all = await Promise.all(Array.from({length: 10}, () => ask(weir, chatBody())));
    for (const {status} of all) assert.equal(status, 200);
    held[0].write(up.jsonReply(up.chatReply()));
    await Promise.all(early);
  });

  test('a request goes back to a target whose Retry-After is over while the other one is full', async (t) => {
    let asked = 0;
    const paused = await upstreamOf(t, (request, socket) =>
      ++asked === 1 ? fails(429, {message: 'slow down'}, {'retry-after': '1'})(request, socket) : answers(request, socket));
    const held = [];
    const full = await upstreamOf(t, (request, socket) => void held.push(socket));
    const targets = [target(paused, {}, 'paused'), target(full, {connections: 1}, 'full')];
    const weir = await relayOf(t, targets, (config) => ({...config, failover: {retry_percent: 100}, routing: {policy: 'balanced'}}));
    t.after(() => held.forEach((socket) => socket.destroy()));
    let done = 0;
    const all = Array.from({length: 3}, () => ask(weir, chatBody()).finally(() => ++done));
    await eventually('both are asked', () => asked > 0 && held.length === 1);
    await eventually('two are answered', () => done === 2);
    held[0].write(up.jsonReply(up.chatReply()));
    for (const {status} of await Promise.all(all)) assert.equal(status, 200);
  });

  test('G1: streams that break in their middle count', async (t) => {
    const {weir, bad} = await brokenPair(t, (request, socket) => {
      preamble(socket);
      socket.write(up.chunk(up.event(OK_EVENTS[1])));
      setTimeout(() => up.reset(socket), 50);
    }, (config) => ({...failing(config), routing: {policy: 'round_robin'}}));
    for (let i = 0; i < 20; ++i) await ask(weir, streamBody());
    assert.equal(bad.requests.length, 2);
  });

  test('G3: what is wrong with the request says nothing against the target', async (t) => {
    const {weir, bad} = await brokenPair(t, fails(400, {message: 'no such parameter', type: 'invalid_request_error'}));
    const statuses = [];
    for (let i = 0; i < 30; ++i) statuses.push((await ask(weir, chatBody())).status);
    assert.ok(bad.requests.length >= 10, `${bad.requests.length}`);
    assert.equal(statuses.filter((status) => status === 400).length, bad.requests.length);
  });

  test('G4: back-pressure of an engine holds it for a moment and opens no breaker', async (t) => {
    const full = {message: 'the queue is full', type: 'server_overloaded'};
    const change = (config) => ({...config, failover: {failures: 1, open_ms: 60_000, retry_percent: 100}});
    let first = true;
    const {weir, bad} = await brokenPair(t, (request, socket) => {
      const act = first ? fails(429, full) : answers;
      first = false;
      return act(request, socket);
    }, change);
    for (let i = 0; i < 10; ++i) assert.equal((await ask(weir, chatBody())).status, 200);
    assert.equal(bad.requests.length, 1);
    await up.sleep(1_200);
    for (let i = 0; i < 20; ++i) assert.equal((await ask(weir, chatBody())).status, 200);
    assert.ok(bad.requests.length > 3, `${bad.requests.length}`);
  });

  test('G7, G8: each failure counts once and for its own target, and holds from the next request on', async (t) => {
    const change = (config) => ({...config, failover: {failures: 5, open_ms: 60_000, retry_percent: 100}});
    const {weir, bad} = await brokenPair(t, fails(500, {message: 'broken'}), change);
    for (let i = 0; i < 40; ++i) assert.equal((await ask(weir, chatBody())).status, 200);
    assert.equal(bad.requests.length, 5);
    assert.deepEqual(await counts(weir, 'weir_attempt_failures_total', 'kind'), {server_error: 5});
    assert.equal((await weir.metric(/^weir_request_retries_total /))[0], 5);
  });

  test('a pool is never emptied: the only target is used however it fails', async (t) => {
    const bad = await upstreamOf(t, fails(500, {message: 'broken'}));
    const weir = await relayOf(t, [target(bad)], failing);
    for (let i = 0; i < 6; ++i) assertFailed(await ask(weir, chatBody()), 500);
    assert.equal(bad.requests.length, 6);
  });

  test('E4: clients that leave say nothing against a target', async (t) => {
    const slow = await upstreamOf(t, () => {});
    const weir = await relayOf(t, [target(slow)], failing);
    for (let i = 0; i < 5; ++i) {
      const arrival = slow.arrival();
      const reply = await start(weir, chatBody());
      await arrival;
      reply.client.leave();
    }
    slow.script(answers);
    assert.equal((await ask(weir, chatBody())).status, 200);
    assert.deepEqual(await counts(weir, 'weir_attempt_failures_total', 'kind').then((all) => Object.values(all).filter((n) => n > 0)), []);
  });

  test('a frozen target is known within two seconds and its requests go elsewhere', async (t) => {
    const frozen = await upstreamOf(t, () => {}); // accepts, reads, says nothing, not even to a probe
    const good = await upstreamOf(t, answers);
    const change = (config) => ({...config, failover: {retry_percent: 100}});
    const weir = await relayOf(t, [target(frozen, {}, 'frozen'), target(good, {}, 'good')], change);
    const begun = performance.now();
    const replies = await Promise.all(Array.from({length: 12}, () => ask(weir, streamBody())));
    const took = performance.now() - begun;
    for (const reply of replies) assertStream(reply, OK_STREAM);
    const waited = frozen.requests.filter((request) => !up.isProbe(request)).length;
    assert.ok(waited > 0);
    assert.ok(took < 3_000, `${took} ms`);
    const all = await counts(weir, 'weir_attempt_failures_total', 'kind');
    assert.equal(all.frozen, waited);
  });

  test('a target that works long on a prompt and answers probes is waited for', async (t) => {
    const slow = await upstreamOf(t, (request, socket) => {
      if (up.isProbe(request)) return socket.write(up.jsonReply({error: 'no such path'}, {status: 404}));
      return void setTimeout(() => answers(request, socket), 3_500);
    });
    const other = await upstreamOf(t, (request, socket) => {
      if (up.isProbe(request)) return socket.write(up.jsonReply({}));
      return void setTimeout(() => answers(request, socket), 3_500);
    });
    const weir = await relayOf(t, [target(slow, {}, 'r1'), target(other, {}, 'r2')]);
    assertStream(await ask(weir, streamBody()), OK_STREAM);
    assert.equal((await weir.metric(/^weir_request_retries_total/))[0], 0);
    await eventually('probes', () => [...slow.requests, ...other.requests].some(up.isProbe));
  });
});
