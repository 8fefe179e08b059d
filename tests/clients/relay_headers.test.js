// What goes upstream and what comes back: exactly one credential, no trace of the client, no hop-by-hop
// field, every unknown field of the bodies. Ids are those of reported faults in other gateways.
import assert from 'node:assert/strict';
import {writeFileSync} from 'node:fs';
import path from 'node:path';
import {after, before, describe, test} from 'node:test';

import {COMPLETIONS, ask} from './support/client.js';
import {
  ALIAS,
  NAME,
  assertFailed,
  assertStream,
  chatBody,
  startRelay,
  streamBody,
  target,
  relayOf,
  upstreamOf,
} from './support/relay.js';
import * as up from './support/upstream.js';
import {authFor, user} from './support/weir.js';

const TARGET_KEY = 'key-of-the-target-7f3a';
const CLIENT_KEY = 'key-of-the-client-99c1';
const CANARY = 'canary-5be0c4';

let upstream;
let weir; // with keys of its own and one for its target
let open; // without any
before(async () => {
  upstream = await up.Upstream.start();
  weir = await startRelay([target(upstream)], (config, dir) => {
    const file = path.join(dir, 'target.key');
    writeFileSync(file, `${TARGET_KEY}\n`, {mode: 0o600});
    return {
      ...config,
      auth: authFor(CLIENT_KEY, dir),
      log: {access: true, level: 'debug'},
      targets: [target(upstream, {api_key_file: file, model: 'served-name'})],
    };
  });
  open = await startRelay([target(upstream)]);
});
after(async () => {
  await weir.stop();
  await open.stop();
  await upstream.stop();
});

const secrets = {
  authorization: `Bearer ${CLIENT_KEY}`,
  cookie: `session=${CANARY}`,
  'x-forwarded-for': `203.0.113.7, ${CANARY}`,
  forwarded: `for=203.0.113.7;host=${CANARY}`,
  'x-real-ip': '203.0.113.7',
  'x-api-key': CANARY,
  'api-key': CANARY,
  'proxy-authorization': `Basic ${CANARY}`,
  'openai-organization': `org-${CANARY}`,
  'openai-project': `proj-${CANARY}`,
  'x-stainless-lang': CANARY,
  'x-custom': CANARY,
  'user-agent': `agent/${CANARY}`,
  via: `1.1 ${CANARY}`,
  referer: `http://${CANARY}/`,
  origin: `http://${CANARY}`,
  'accept-encoding': 'gzip, br, zstd',
  te: 'trailers',
  connection: 'keep-alive, x-custom',
};
const ALLOWED = [
  'accept',
  'accept-encoding',
  'authorization',
  'connection',
  'content-length',
  'content-type',
  'host',
  'user-agent',
  'x-request-id',
];

const whole = () => upstream.script(up.replies(up.jsonReply(up.chatReply())));
const asKey = {headers: {authorization: `Bearer ${CLIENT_KEY}`}};

describe('request headers', {timeout: 60_000}, () => {
  for (const [name, body] of Object.entries({whole: chatBody(), stream: streamBody()})) {
    test(`I5 only weir's own set goes upstream (${name})`, async () => {
      upstream.script(up.replies(body.stream ? up.sse(up.chatEvents()) : up.jsonReply(up.chatReply())));
      const reply = await ask(weir, body, {headers: secrets});
      assert.equal(reply.status, 200, reply.text);
      const [request] = upstream.requests;
      assert.deepEqual(
        Object.keys(request.headers).filter((field) => !ALLOWED.includes(field)),
        [],
      );
      assert.equal(request.headers.host, `127.0.0.1:${upstream.port}`);
      assert.match(request.headers['user-agent'], /^weir\//);
      assert.equal(request.headers['content-type'], 'application/json');
      assert.equal(request.headers['content-length'], String(request.body.length));
      assert.equal(request.headers['x-request-id'], reply.headers['x-request-id']);
      assert.ok(['identity', undefined].includes(request.headers['accept-encoding']));
      assert.equal(request.path, '/v1/chat/completions');
    });
  }

  test("exactly one credential goes upstream: the target's", async () => {
    whole();
    await ask(weir, chatBody(), {headers: secrets});
    assert.equal(upstream.requests[0].headers.authorization, `Bearer ${TARGET_KEY}`);
    assert.equal(
      upstream.requests[0].fields.filter(([name]) => /auth|key|cookie|token/i.test(name)).length,
      1,
    );
  });

  test('a target without a key gets none, whatever the client sent', async () => {
    whole();
    const {origin, ...headers} = secrets; // a page from elsewhere is no client of an open gateway
    await ask(open, chatBody(), {headers});
    assert.ok(origin && !('authorization' in upstream.requests[0].headers));
  });

  test('no secret of any side is where it does not belong: upstream, replies, logs, metrics', async () => {
    const replies = [];
    const seen = [];
    const handlers = [
      up.replies(up.jsonReply(up.chatReply())),
      up.replies(up.jsonReply({error: {message: 'no', type: 'x', code: 401}}, {status: 401})),
      up.replies('nonsense\r\n\r\n'),
      (request, socket) => up.reset(socket),
    ];
    for (const handler of handlers) {
      upstream.script(handler);
      for (const body of [chatBody(), streamBody()]) replies.push(await ask(weir, body, {headers: secrets}));
      replies.push(await ask(weir, '{', {headers: secrets}));
      seen.push(...upstream.requests);
    }
    replies.push(
      await ask(weir, chatBody(), {headers: {...secrets, authorization: `Bearer wrong-${CANARY}`}}),
    );
    const sent = seen.map((request) => request.head + String(request.body)).join('\n');
    for (const secret of [CANARY, CLIENT_KEY, '203.0.113.7']) assert.ok(!sent.includes(secret), secret);
    const shown = replies.map((reply) => JSON.stringify(reply.fields) + reply.text).join('\n');
    const metrics = await (await fetch(`${weir.admin}/metrics`)).text();
    for (const secret of [CANARY, CLIENT_KEY, TARGET_KEY]) {
      assert.ok(!shown.includes(secret), `a reply has ${secret}`);
      assert.ok(!(weir.log + weir.out).includes(secret), `the log has ${secret}`);
      assert.ok(!metrics.includes(secret), `a metric has ${secret}`);
    }
  });

  test("the target's key with a wrong mode is refused at start", async () => {
    await assert.rejects(
      startRelay([], (config, dir) => {
        const file = path.join(dir, 'open.key');
        writeFileSync(file, TARGET_KEY, {mode: 0o644});
        const targets = [target(upstream, {api_key_file: file})];
        return {...config, targets, models: [{name: NAME, targets: ['r1']}]};
      }),
      (error) => /api_key_file/.test(error.message) && !error.message.includes(TARGET_KEY),
    );
  });
});

describe('bodies', {timeout: 60_000}, () => {
  test('I3 unknown request fields, of every level, pass', async () => {
    whole();
    const fields = {
      cache_salt: 'salt',
      top_k: 3,
      min_p: 0.1,
      chat_template_kwargs: {thinking: true},
      structured_outputs: {regex: 'a+'},
      vendor_field: [1, {a: null}],
      messages: [
        {role: 'user', content: 'x', vendor_key: {b: 1}},
        {role: 'assistant', content: 'y', reasoning: 'r', reasoning_content: 'r'},
        user('z'),
      ],
      stop_token_ids: [1],
      priority: 0,
      service_tier: 'auto',
      temperature: 1.0,
    };
    await ask(open, chatBody(fields));
    assert.deepEqual(JSON.parse(upstream.requests[0].body), chatBody(fields));
  });

  const text = (model) =>
    '\n { "messages" : [ {"role":"user","content":"a \\u0041 \\/ \\ud83e\\udd8a 東"} ] ,' +
    `\t"model" :  "${model}" , "model_2":"fox","x":{"model":"fox"},"big":123456789012345678901234567890,` +
    '"f":1.0E-2 ,"Model":"fox"} \r\n';
  for (const [name, of, model, sent] of [
    ['the configured name', () => open, NAME, NAME],
    ['an alias', () => open, ALIAS, NAME],
    ['a served name', () => weir, NAME, 'served-name'],
  ]) {
    test(`only the value of the top-level model may change: ${name}`, async () => {
      whole();
      const reply = await ask(of(), text(model), asKey);
      assert.equal(reply.status, 200, reply.text);
      assert.equal(String(upstream.requests[0].body), text(sent));
    });
  }

  test('an escaped model name is the same name', async () => {
    whole();
    const reply = await ask(open, text('f\\u006fx'));
    assert.equal(reply.status, 200, reply.text);
    assert.equal(JSON.parse(upstream.requests[0].body).model, NAME);
  });

  test('a model that is named twice is refused: upstream might read the other one', async () => {
    whole();
    const text = `{"model":"${NAME}","messages":[{"role":"user","content":"x"}],"\\u006dodel":"other"}`;
    assertFailed(await ask(open, text), 400);
    assert.equal(upstream.requests.length, 0);
  });

  test('I4 unknown response fields, reasoning and reasoning_content survive, byte for byte', async () => {
    const body =
      '{ "id":"x", "object":"chat.completion","created":1,"model":"m", "vendor":{"a":[1,2.50]},' +
      '"prompt_logprobs":null,"choices":[{"index":0,"message":{"role":"assistant","content":"a",' +
      '"reasoning":"r","reasoning_content":"r"},"token_ids":[1,2],"stop_reason":7,"finish_reason":"stop"}],' +
      '"usage":{"prompt_tokens":1,"completion_tokens":1,' +
      '"total_tokens":2,"prompt_tokens_details":{"cached_tokens":1}},"kv_transfer_params":{"x":null} }\n';
    upstream.script(up.replies(up.jsonReply(body)));
    assert.equal((await ask(open, chatBody())).text, body);
  });
});

describe('reply headers', {timeout: 60_000}, () => {
  const fields = {
    server: 'uvicorn',
    date: 'Thu, 01 Jan 1970 00:00:00 GMT',
    'set-cookie': 'a=b',
    connection: 'keep-alive, x-hop',
    'keep-alive': 'timeout=5',
    'x-hop': '1',
    'proxy-authenticate': 'Basic',
    upgrade: 'h2c',
    trailer: 'x',
    'alt-svc': 'h3=":443"',
    'access-control-allow-origin': '*',
    'x-request-id': 'of-the-upstream',
    'strict-transport-security': 'max-age=1',
    'retry-after': '7',
    'retry-after-ms': '6500',
    'x-should-retry': 'false',
  };
  const KEPT = ['retry-after', 'retry-after-ms', 'x-should-retry'];
  for (const status of [200, 422, 503]) {
    test(`status ${status}: content type and retry advice pass, the rest is weir's own`, async () => {
      const body =
        status === 200 ? up.chatReply() : {error: {message: 'm', type: 't', param: null, code: 'c'}};
      const type = 'application/json; charset=utf-8';
      upstream.script(up.replies(up.jsonReply(body, {status, fields: {...fields, 'content-type': type}})));
      const reply = await ask(open, chatBody());
      assert.equal(reply.status, status);
      assert.equal(reply.headers['content-type'], type);
      assert.equal(reply.text, JSON.stringify(body));
      for (const name of KEPT) assert.equal(reply.headers[name], fields[name], name);
      for (const name of Object.keys(fields).filter((key) => !KEPT.includes(key)))
        assert.notEqual(reply.headers[name], fields[name], name);
      for (const name of [
        'set-cookie',
        'x-hop',
        'proxy-authenticate',
        'upgrade',
        'trailer',
        'transfer-encoding',
      ])
        assert.ok(!(name in reply.headers), name);
      assert.equal(new Set(reply.fields.map(([name]) => name.toLowerCase())).size, reply.fields.length);
    });
  }

  test("a stream's head is weir's own", async () => {
    const events = up.chatEvents(['a'], {usage: false});
    upstream.script(up.replies(up.sse(events, {fields})));
    const reply = await ask(open, streamBody());
    assertStream(reply, events.map((value) => up.event(value)).join(''));
    assert.equal(reply.headers['content-type'], 'text/event-stream; charset=utf-8');
    for (const name of ['set-cookie', 'x-hop', 'upgrade', 'trailer', 'server'])
      assert.notEqual(reply.headers[name], fields[name], name);
  });
});

describe('models', {timeout: 60_000}, () => {
  test('names are listed, with max_model_len where it is known', async (t) => {
    const other = await relayOf(t, [target(upstream, {context_tokens: 4096})]);
    const list = async (of) => (await (await fetch(`${of.base}/models`)).json()).data;
    const [known] = await list(other);
    assert.deepEqual([known.id, known.max_model_len], [NAME, 4096]);
    const [unknown] = await list(open);
    assert.equal(unknown.id, NAME);
    assert.ok(unknown.max_model_len === undefined || unknown.max_model_len === null);
  });

  test('requests go to the targets of a model in turn; an alias is the same model', async (t) => {
    const second = await upstreamOf(t, up.replies(up.jsonReply(up.chatReply('second'))));
    const inTurn = (config) => ({...config, routing: {policy: 'round_robin'}});
    const both = await relayOf(t, [target(upstream), target(second, {}, 'r2')], inTurn);
    upstream.script(up.replies(up.jsonReply(up.chatReply('first'))));
    for (let i = 0; i < 10; ++i) await ask(both, chatBody(i % 2 ? {} : {model: ALIAS}));
    assert.deepEqual([upstream.requests.length, second.requests.length], [5, 5]);
  });

  test('completions go to completions; a base_url with a path and a slash is kept', async (t) => {
    const other = await relayOf(t, [target({base: `http://127.0.0.1:${upstream.port}/deep/v1/`})]);
    whole();
    await ask(other, {model: NAME, prompt: 'x'}, {route: COMPLETIONS});
    await ask(other, chatBody());
    assert.deepEqual(
      upstream.requests.map((request) => request.path),
      ['/deep/v1/completions', '/deep/v1/chat/completions'],
    );
  });

  test('connections, where none may wait: over the limit of all targets 503 with retry-after, under it served', async (t) => {
    const other = await relayOf(t, [target(upstream, {connections: 2})], (config) => ({...config, overload: {waiting: 0}}));
    const held = [];
    upstream.script((request, socket) => void held.push(socket));
    const first = [ask(other, chatBody()), ask(other, chatBody())];
    while (held.length < 2) await up.sleep(5);
    const refused = await ask(other, chatBody());
    assertFailed(refused, 503, 'overloaded');
    assert.match(refused.headers['retry-after'], /^\d+$/);
    held[0].write(up.jsonReply(up.chatReply()));
    held[1].write(up.jsonReply(up.chatReply()));
    await Promise.all(first);
    whole();
    assert.equal((await ask(other, chatBody())).status, 200);
  });
});
