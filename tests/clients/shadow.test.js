// Shadow copies: whose requests are copied and what of them leaves, what a pair says, and that nothing is sent
// twice. That they cost clients nothing is in shadow_isolation.test.js.
import assert from 'node:assert/strict';
import {execFile} from 'node:child_process';
import {readFileSync, statSync} from 'node:fs';
import path from 'node:path';
import {describe, test} from 'node:test';
import {promisify} from 'node:util';

import {ADMIN_KEY, send} from './support/admin.js';
import {MESSAGES_USAGE, messageEnd, messageStart, namedEvents, textBlock} from './support/hosted.js';
import {eventually} from './support/raw.js';
import {NAME, chatBody} from './support/relay.js';
import {bearer} from './support/routing.js';
import {ALLOWED, WORDS, answer, askOnce, dropped, pairsOf, shadowed, total} from './support/shadow.js';
import {chatReply, head, jsonReply, replies, reset, sse} from './support/upstream.js';
import {Weir, user} from './support/weir.js';

const CLOSE = {connection: 'close'};
const run = promisify(execFile);
const jsonOf = (request) => JSON.parse(request.body);
const near = (nano, usd) => assert.ok(Math.abs(nano - usd * 1e9) < 1, `${nano} instead of ${usd * 1e9}`);

// What must not be there is looked for when all that was begun has ended.
async function settled(weir) {
  await eventually('no copy at work', async () => (await total(weir, 'in_flight')) === 0);
}

// Ends a weir whose test stops it later.
async function end(weir) {
  weir.child.kill('SIGTERM');
  assert.equal((await weir.ended).code, 0);
}

describe('a pair', {timeout: 120_000}, () => {
  test('has both sides: tokens, prices at cache discounts, times, agreement', async (t) => {
    const {weir, other} = await shadowed(t, {shadow: replies(answer(['The ', 'capital ', 'is ', 'Mombasa.'], 0))});
    const {status, text} = await askOnce(weir);
    assert.equal(status, 200);
    assert.match(text, /Nairobi/);
    assert.ok(!text.includes('Mombasa'));
    const [pair] = await pairsOf(weir, 1);
    assert.equal(pair.model, NAME);
    assert.deepEqual([pair.tenant, pair.key, pair.streamed], ['t', 'a', true]);
    assert.deepEqual([pair.primary.target, pair.shadow.target], ['own', 'other']);
    for (const side of [pair.primary, pair.shadow]) {
      assert.deepEqual([side.end, side.status, side.unpriced, side.excerpt], ['ok', 200, false, '']);
      assert.deepEqual([side.prompt_tokens, side.output_tokens], [1000, 4]);
      assert.ok(side.ttft_ns > 0 && side.end_to_end_ns >= side.ttft_ns, JSON.stringify(side));
    }
    assert.deepEqual([pair.primary.cached_tokens, pair.shadow.cached_tokens], [800, 0]);
    near(pair.primary.price_nano_usd, (200 * 3 + 800 * 0.3 + 4 * 15) / 1e6);
    near(pair.shadow.price_nano_usd, (1000 * 2 + 4 * 8) / 1e6);
    const {overlap, ...alike} = pair.agreement;
    assert.deepEqual(alike, {compared: true, cut: false, exact: false, json: 'absent', tools: 'absent'});
    assert.equal(overlap, 0.8); // The capital is, and the full stop, of five words each
    assert.equal(jsonOf(other.requests[0]).stream, true);
    assert.equal(await total(weir, 'pairs_total'), 1);
    assert.ok(Math.abs((await total(weir, 'cost_usd_total')) - 0.002032) < 1e-9);
  });

  test('of an answer that is not streamed: the copy is, to be measured', async (t) => {
    const own = replies(jsonReply(chatReply('The capital is Nairobi.')));
    const {weir, other} = await shadowed(t, {own});
    const response = await weir.post('/v1/chat/completions', chatBody(), bearer('a'));
    assert.equal((await response.json()).choices[0].message.content, 'The capital is Nairobi.');
    const [pair] = await pairsOf(weir, 1);
    assert.equal(pair.streamed, false);
    assert.equal(pair.primary.ttft_ns, null);
    assert.ok(pair.shadow.ttft_ns > 0);
    assert.equal(pair.agreement.exact, true);
    const {stream, stream_options} = jsonOf(other.requests[0]);
    assert.deepEqual([stream, stream_options], [true, {include_usage: true}]);
  });

  test('with a target that speaks the messages API', async (t) => {
    const events = [messageStart, ...textBlock(0, 'The capital ', 'is Nairobi.'), ...messageEnd()];
    const {weir, other} = await shadowed(t, {
      shadow: replies(namedEvents(events)),
      http: {dialect: 'anthropic', model: 'claude-up'},
      price: {fresh_usd_per_mtok: 2, cached_usd_per_mtok: 0.2, cache_write_usd_per_mtok: 2.5, output_usd_per_mtok: 8},
    });
    await askOnce(weir);
    const [pair] = await pairsOf(weir, 1);
    assert.equal(other.requests[0].path, '/v1/messages');
    assert.equal(pair.shadow.end, 'ok');
    assert.equal(pair.agreement.exact, true);
    near(pair.shadow.price_nano_usd, (100 * 2 + 1000 * 0.2 + 200 * 2.5 + 50 * 8) / 1e6);
    assert.equal(pair.shadow.prompt_tokens, 1300);
    assert.equal(pair.shadow.cached_tokens, MESSAGES_USAGE.cache_read_input_tokens);
  });

  test('of tool calls: equal whatever the order of keys', async (t) => {
    const calls = (text) =>
      sse([
        {choices: [{index: 0, delta: {tool_calls: [{index: 0, id: 'c', type: 'function', function: {name: 'f', arguments: ''}}]}}]},
        {choices: [{index: 0, delta: {tool_calls: [{index: 0, function: {arguments: text}}]}}]},
        {choices: [{index: 0, delta: {}, finish_reason: 'tool_calls'}]},
        '[DONE]',
      ]);
    const {weir} = await shadowed(t, {
      own: replies(calls('{"a":1,"b":[2]}')),
      shadow: replies(calls('{"b": [2], "a": 1.0}')),
    });
    await askOnce(weir);
    const [pair] = await pairsOf(weir, 1);
    assert.deepEqual([pair.agreement.tools, pair.agreement.exact], ['equal', false]);
  });

  test('keeps the begin of both answers only where it was told to', async (t) => {
    const long = ['x'.repeat(3000)];
    const {weir} = await shadowed(t, {own: replies(answer(long)), copy: {keep_text: true}});
    await askOnce(weir);
    const [pair] = await pairsOf(weir, 1);
    assert.equal(pair.primary.excerpt, 'x'.repeat(2048));
    assert.equal(pair.shadow.excerpt, WORDS.join(''));
  });

  test('survives a restart, and its page says when there are more', async (t) => {
    const {weir} = await shadowed(t);
    for (let i = 0; i < 3; ++i) await askOnce(weir);
    await pairsOf(weir, 3);
    const page = async (query, status = 200) => {
      const reply = await send(weir, 'GET', `/admin/v1/shadow/pairs${query}`, undefined, bearer(ADMIN_KEY));
      assert.equal(reply.status, status, reply.text);
      return reply.json;
    };
    const first = await page('?limit=2');
    assert.equal(first.data.length, 2);
    const second = await page(`?limit=2&cursor=${first.next}`);
    assert.deepEqual([second.data.length, second.next], [1, null]);
    assert.equal((await page('?model=other')).data.length, 0);
    assert.equal((await page(`?since=${first.data[0].at + 1000}`)).data.length, 0);
    for (const bad of ['?since=x', '?model=', '?model=a&model=b', '?limit=0', '?cursor=zz', '?other=1']) await page(bad, 400);
    assert.equal((await send(weir, 'GET', '/admin/v1/shadow/pairs')).status, 401);
    const before = await pairsOf(weir, 3);
    await end(weir);
    const again = await Weir.start(() => weir.config);
    t.after(() => again.stop());
    assert.deepEqual(await pairsOf(again, 3), before);
  });
});

describe('whose requests are copied', {timeout: 120_000}, () => {
  test('those of keys that allow it, and never those that stay here', async (t) => {
    const keys = {
      open: ALLOWED,
      closed: {tenant: 't'},
      local: {...ALLOWED, residency: 'local_only'},
      made: ALLOWED,
    };
    const {weir, other, admin} = await shadowed(t, {keys});
    const {key: late} = await admin.create({name: 'late', tenant: 't', shadow: true});
    const {key: lateLocal} = await admin.create({name: 'late-local', tenant: 't', shadow: true, residency: 'local_only'});
    const {key: lateClosed} = await admin.create({name: 'late-closed', tenant: 't'});
    for (const key of ['open', 'closed', 'local', late, lateLocal, lateClosed]) {
      assert.equal((await askOnce(weir, key)).status, 200);
    }
    const pairs = await pairsOf(weir, 2);
    await settled(weir);
    assert.deepEqual(pairs.map((pair) => pair.key).sort(), ['late', 'open']);
    assert.equal(other.requests.length, 2);
    assert.deepEqual(await dropped(weir), {local_only: 2});
  });

  test('a share of them, the same ones each time', async (t) => {
    const {weir, other} = await shadowed(t, {copy: {share: 0.3}});
    const round = async () => {
      other.requests.length = 0;
      for (let i = 0; i < 60; ++i) await askOnce(weir, 'a', {seed: i}, {'x-request-id': `request-${i}`});
      await settled(weir);
      return other.requests.map((request) => jsonOf(request).seed).sort((a, b) => a - b);
    };
    const once = await round();
    assert.ok(once.length > 5 && once.length < 35, `${once.length} of 60`);
    assert.deepEqual(await round(), once);
  });

  test('none whose client left, none that is at fault itself', async (t) => {
    const own = (request, socket) => {
      if (jsonOf(request).seed === 1) return socket.write(head(200, {'content-type': 'text/event-stream'}));
      return socket.write(jsonReply({error: {message: 'no', type: 'invalid_request_error'}}, {status: 400}));
    };
    const {weir, primary, other} = await shadowed(t, {own});
    assert.equal((await askOnce(weir)).status, 400);
    const left = new AbortController();
    const arrived = primary.arrival();
    const asked = fetch(`${weir.url}/v1/chat/completions`, {
      method: 'POST',
      signal: left.signal,
      headers: {'content-type': 'application/json', ...bearer('a')},
      body: JSON.stringify({...chatBody({seed: 1}), stream: true}),
    });
    await arrived;
    left.abort();
    await assert.rejects(asked);
    await eventually('both are counted', async () => (await dropped(weir)).unanswered === 2);
    assert.equal(other.requests.length, 0);
  });

  test('those that a target failed, with its failure in the pair', async (t) => {
    const own = (request, socket) => {
      if (jsonOf(request).seed === 1) return socket.write(jsonReply({error: {message: 'no'}}, {status: 500}));
      socket.write(answer(WORDS).subarray(0, 600));
      return setTimeout(() => reset(socket), 50);
    };
    const {weir} = await shadowed(t, {own, more: {failover: {attempts: 1}}});
    assert.equal((await askOnce(weir, 'a', {seed: 1})).status, 500);
    await pairsOf(weir, 1);
    await askOnce(weir, 'a', {seed: 2}).catch(() => {});
    const [failed, broken] = await pairsOf(weir, 2);
    assert.deepEqual([failed.primary.end, failed.primary.status, failed.shadow.end], ['failed', 500, 'ok']);
    assert.deepEqual([broken.primary.end, broken.shadow.end], ['broken', 'ok']);
    assert.equal(broken.agreement.compared, false);
  });
});

describe('what leaves', {timeout: 120_000}, () => {
  const SECRET = 'canary-7f3a';

  test('no secret: not the client’s key, headers, redacted fields or identifiers', async (t) => {
    const key = `${SECRET}-key`;
    const copy = {redact: ['user', 'metadata', 'messages[].name', 'safety_identifier', 'extra.inner']};
    const {weir, other} = await shadowed(t, {keys: {[key]: ALLOWED}, copy});
    const body = {
      user: `${SECRET}-user`,
      metadata: {session: `${SECRET}-session`},
      safety_identifier: `${SECRET}-id`,
      cache_salt: `${SECRET}-salt`,
      extra: {inner: `${SECRET}-inner`, outer: 'kept'},
      messages: [{role: 'user', name: `${SECRET}-name`, content: 'ping'}],
      temperature: 1e-1,
    };
    const headers = {
      cookie: `session=${SECRET}`,
      'x-request-id': `${SECRET}-request`,
      'x-session-id': `${SECRET}-conversation`,
      'x-forwarded-for': `${SECRET}`,
      'user-agent': `${SECRET}-agent`,
      'x-api-key': key,
    };
    assert.equal((await askOnce(weir, key, body, headers)).status, 200);
    await pairsOf(weir, 1);
    const [request] = other.requests;
    const bytes = `${request.head}\r\n\r\n${request.body}`;
    assert.ok(!bytes.includes('canary'), bytes);
    assert.ok(!bytes.includes(ADMIN_KEY));
    assert.ok(!('authorization' in request.headers));
    assert.deepEqual(jsonOf(request).messages, [{role: 'user', content: 'ping'}]);
    assert.deepEqual(jsonOf(request).extra, {outer: 'kept'});
    assert.equal(jsonOf(request).temperature, 0.1);
  });

  test('identifiers of users are redacted unless the list says otherwise', async (t) => {
    const {weir, other} = await shadowed(t);
    await askOnce(weir, 'a', {user: 'u', metadata: {a: 'b'}, prompt_cache_key: 'k', messages: [user('hi')]});
    await pairsOf(weir, 1);
    assert.deepEqual(Object.keys(jsonOf(other.requests[0])).sort(), ['messages', 'model', 'stream', 'stream_options']);
  });

  test('the target’s own key and model name, as for any request', async (t) => {
    const {weir, other} = await shadowed(t, {http: {model: 'served-there'}});
    await askOnce(weir);
    await pairsOf(weir, 1);
    assert.equal(jsonOf(other.requests[0]).model, 'served-there');
    assert.match(other.requests[0].headers['x-request-id'], /^shadow-[0-9a-f]{16}$/);
  });
});

describe('a shadow target that fails', {timeout: 120_000}, () => {
  test('is asked once for each copy, whatever it does', async (t) => {
    const kinds = {
      500: (socket) => socket.end(jsonReply({error: {message: 'no'}}, {status: 500, fields: CLOSE})),
      503: (socket) => socket.end(jsonReply({error: {message: 'no'}}, {status: 503, fields: {...CLOSE, 'retry-after': '0'}})),
      429: (socket) => socket.end(jsonReply({error: {message: 'Rate limit reached'}}, {status: 429, fields: CLOSE})),
      reset: (socket) => reset(socket),
      close: (socket) => socket.end(),
      nonsense: (socket) => socket.end('nonsense\r\n\r\n'),
      cut: (socket) => {
        socket.write(answer(WORDS).subarray(0, 600));
        setTimeout(() => reset(socket), 20);
      },
    };
    const order = Object.keys(kinds);
    const shadow = (request, socket) => kinds[order[jsonOf(request).seed]](socket);
    const {weir, other} = await shadowed(t, {shadow, more: {failover: {failures: 1000}}});
    for (let i = 0; i < order.length; ++i) {
      assert.equal((await askOnce(weir, 'a', {seed: i})).status, 200);
      await settled(weir);
    }
    const pairs = await pairsOf(weir, order.length);
    assert.equal(other.requests.length, order.length);
    const ends = Object.fromEntries(pairs.map((pair, i) => [order[i], pair.shadow.end]));
    assert.deepEqual(ends, {
      500: 'failed',
      503: 'failed',
      429: 'refused',
      reset: 'failed',
      close: 'failed',
      nonsense: 'failed',
      cut: 'broken',
    });
    assert.ok(pairs.every((pair) => pair.primary.end === 'ok' && !pair.agreement.compared));
    assert.equal(await total(weir, 'sent_total'), order.length);
  });

  test('that closed a connection which is used again: the copy is dropped, and not sent anew', async (t) => {
    const shadow = (request, socket) => (request.index === 0 ? socket.write(answer(WORDS)) : reset(socket));
    const {weir, other} = await shadowed(t, {shadow});
    await askOnce(weir);
    await pairsOf(weir, 1);
    await askOnce(weir);
    await eventually('it is dropped', async () => (await dropped(weir)).stale === 1);
    assert.deepEqual([other.requests.length, other.connections.length], [2, 1]);
  });

  test('is left alone for a while by a breaker of its own', async (t) => {
    const shadow = replies(jsonReply({error: {message: 'no'}}, {status: 500}));
    const {weir, other} = await shadowed(t, {shadow, more: {failover: {failures: 3, open_ms: 60_000}}});
    for (let i = 0; i < 8; ++i) {
      await askOnce(weir);
      await settled(weir);
    }
    assert.equal(other.requests.length, 3);
    assert.deepEqual(await dropped(weir), {breaker: 5});
  });

  test('is cut at its time, and its pair says so', async (t) => {
    const shadow = (request, socket) => {
      if (jsonOf(request).seed === 1) socket.write(answer(WORDS).subarray(0, 600));
    };
    const {weir} = await shadowed(t, {shadow, copy: {timeout_ms: 300}});
    await askOnce(weir, 'a', {seed: 0});
    await pairsOf(weir, 1);
    await askOnce(weir, 'a', {seed: 1});
    const [silent, stuck] = await pairsOf(weir, 2);
    assert.deepEqual([silent.shadow.end, stuck.shadow.end], ['timed_out', 'broken']);
  });
});

describe('weir compare', {timeout: 120_000}, () => {
  const compare = (...options) => run(process.env.WEIR_BIN, ['compare', ...options], {maxBuffer: 64 << 20});

  test('says who wins, from a running weir and from its folder', async (t) => {
    const shadow = (request, socket) => socket.write(answer(['It ', 'is ', 'in ', 'Kenya.'], 0));
    const {weir, dir, file} = await shadowed(t, {shadow, copy: {keep_text: true}});
    for (let i = 0; i < 20; ++i) await askOnce(weir);
    await pairsOf(weir, 20);
    const at = ['--url', weir.admin, '--admin-key-file', file];
    const html = path.join(dir, 'report.html');
    const {stdout} = await compare(...at, '--since', '1h', '--model', NAME, '--html', html);
    assert.match(stdout, /fox: own \(answered the clients\) and other \(got copies\)\n20 pairs/);
    assert.match(stdout, /Cheaper\n {2}own, by \d/);
    assert.match(stdout, /More reliable\n {2}no difference can be told from 20 pairs/);
    const page = readFileSync(html, 'utf8');
    assert.match(page, /<svg/);
    assert.match(page, /The capital is Nairobi\./);
    assert.equal(statSync(html).mode & 0o777, 0o600);
    const json = JSON.parse((await compare(...at, '--json')).stdout);
    assert.equal(json.comparisons[0].pairs, 20);
    assert.equal(json.comparisons[0].verdict[0].winner, 'primary');
    const none = await compare(...at, '--model', 'nobody');
    assert.match(none.stdout, /no pairs/);
    await assert.rejects(compare('--url', weir.admin), /401|admin/);
    await assert.rejects(compare(...at, '--since', 'yesterday'), /--since/);
    const ledger = path.join(dir, 'ledger');
    await assert.rejects(compare('--ledger', ledger), /in use/);
    await end(weir);
    const offline = JSON.parse((await compare('--ledger', ledger, '--json')).stdout);
    assert.deepEqual(offline.comparisons, json.comparisons);
  });
});
