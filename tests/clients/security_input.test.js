// What clients put into fields stays a value there: it ends up in no head, starts no line of the log and no
// series of the metrics, and what has two meanings goes to no target.
import assert from 'node:assert/strict';
import {describe, test} from 'node:test';

import {CHAT, ask} from './support/client.js';
import {hostedWith, jsonOf} from './support/hosted.js';
import {Raw} from './support/raw.js';
import {PRICE, limited} from './support/limits.js';
import {NAME, chatBody, inParallel} from './support/relay.js';
import {bearer} from './support/routing.js';
import {plays} from './support/scripted_model.js';
import {user} from './support/weir.js';

const INJECTED = 'x-injected';
const ENDS = [
  '\r\n',
  '\n',
  '\r',
  '\r\n\r\n',
  '\u0085',
  '\u2028',
  '\u0000\r\n',
  '%0d%0a',
  '\\r\\n',
  '\u560d\u560a',
  '\u010d\u010a',
];
const CONTROLS = [...Array(32).keys(), 127].map((code) => String.fromCharCode(code));
const PAYLOADS = [
  ...ENDS.map((end) => `a${end}${INJECTED}: 1${end}${end}GET /healthz HTTP/1.1${end}`),
  ...CONTROLS.map((c) => `a${c}b`),
  '"},"status":200,"x":{"',
  '</script>',
  '${jndi:ldap://127.0.0.2/x}',
  '\u001b[2J\u001b]0;x\u0007',
  '\u202egnp.exe',
  '🦊'.repeat(200),
];

const started = (t) => hostedWith(t, {endpoints: ['chat', 'responses']}, plays([{text: 'Nairobi'}]));
const to = (weir, body, route = CHAT, headers = {}) =>
  ask(weir, body, {route, headers: {...bearer('a'), ...headers}});

const UPSTREAM_FIELDS = ['accept', 'content-length', 'content-type', 'host', 'user-agent', 'x-request-id'];
const linesOf = (weir) => weir.log.split('\n').filter((line) => line.startsWith('{'));

// Nothing of a payload left its field: not upstream, not in a reply's head, not in the log.
function assertContained({weir, upstream}, replies) {
  assert.deepEqual(upstream.malformed, []);
  for (const {headers, path} of upstream.requests) {
    assert.deepEqual(
      Object.keys(headers)
        .filter((name) => name !== 'authorization')
        .sort(),
      UPSTREAM_FIELDS,
    );
    assert.match(path, /^\/v1\/(chat\/completions|responses)$/);
  }
  for (const {headers, fields} of replies) {
    assert.equal(headers[INJECTED], undefined);
    assert.ok(
      fields.every(([name, value]) => /^[!-~]+$/.test(name) && /^[ -~]*$/.test(value)),
      JSON.stringify(fields),
    );
  }
  for (const line of linesOf(weir)) {
    const {status, request_id: id} = JSON.parse(line);
    assert.ok(Number.isInteger(status) && /^[!-~]+$/.test(id), line);
  }
  // What a terminal would obey is in no line.
  assert.ok(
    !/[\u0000-\u0009\u000b-\u001f\u007f]/.test(weir.log),
    JSON.stringify(weir.log.match(/.{40}[\u0000-\u0009\u000b-\u001f\u007f].{40}/)),
  );
}

describe('control characters and lines', {timeout: 600_000}, () => {
  test('in text fields of a body that is served', async (t) => {
    const all = await started(t);
    const replies = [];
    await inParallel(PAYLOADS, 8, async (text) => {
      const fields = {
        user: text,
        safety_identifier: text,
        prompt_cache_key: text,
        metadata: {[text]: text},
        [text]: text,
        cache_salt: text,
        messages: [{role: 'user', name: text, content: text}],
        stop: [text],
        tools: [{type: 'function', function: {name: text, description: text, parameters: {}}}],
      };
      for (const body of [chatBody(fields), chatBody({...fields, stream: true})])
        replies.push(await to(all.weir, body));
      replies.push(
        await to(all.weir, {model: NAME, input: text, user: text, prompt_cache_key: text}, '/v1/responses'),
      );
      replies.push(
        await to(
          all.weir,
          {model: NAME, max_tokens: 9, messages: [user(text)], metadata: {user_id: text}},
          '/v1/messages',
        ),
      );
    });
    assert.ok(replies.filter(({status}) => status === 200).length > PAYLOADS.length, 'most are served');
    assertContained(all, replies);
  });

  test('in the name of a model', async (t) => {
    const all = await started(t);
    const replies = [];
    await inParallel(PAYLOADS, 8, async (model) => {
      for (const [route, body] of [
        [CHAT, chatBody({model})],
        [CHAT, chatBody({model: NAME + model})],
        ['/v1/responses', {model, input: 'x'}],
        ['/v1/messages', {model, max_tokens: 9, messages: [user('x')]}],
        ['/tokenize', {model, prompt: 'x'}],
      ]) {
        const reply = await to(all.weir, body, route);
        assert.equal(reply.status, 404, `${JSON.stringify(model)} ${reply.text}`);
        replies.push(reply);
      }
    });
    assertContained(all, replies);
    assert.equal(all.upstream.requests.length, 0);
  });

  test('in fields of the head', async (t) => {
    const all = await started(t);
    const replies = [];
    const names = [
      'x-request-id',
      'x-session-id',
      'x-client-request-id',
      'session-id',
      'user-agent',
      'openai-organization',
      'traceparent',
    ];
    const ids = new Set();
    for (const text of PAYLOADS) {
      for (const name of names) {
        const reply = await to(all.weir, chatBody(), CHAT, {[name]: Buffer.from(text).toString('latin1')});
        replies.push(reply);
        assert.ok(!ids.has(reply.headers['x-request-id']) || reply.status === 400);
        ids.add(reply.headers['x-request-id']);
        assert.ok([200, 400].includes(reply.status), `${name} ${JSON.stringify(text)} ${reply.status}`);
      }
    }
    // A bare end of line within a value ends the field: the rest is a field of its own, which stays here.
    assertContained(all, replies);
  });
});

describe('metrics', {timeout: 600_000}, () => {
  test('L4: 1,000 names of models, of paths and of methods make no series', async (t) => {
    const {weir} = await started(t);
    const series = async () => {
      const text = await (await fetch(`${weir.admin}/metrics`)).text();
      return new Set(
        text
          .split('\n')
          .filter((line) => line && !line.startsWith('#'))
          .map((line) => line.replace(/ \S+$/, '')),
      );
    };
    const junk = async (n) => {
      for (const [route, fields] of [
        [CHAT, {}],
        ['/v1/completions', {prompt: 'x'}],
        ['/v1/messages', {max_tokens: 9}],
      ]) {
        assert.equal((await to(weir, chatBody({model: `junk-${n}`, ...fields}), route)).status, 404);
      }
      await to(weir, chatBody(), `/v1/junk-${n}`);
      await to(weir, chatBody(), `/junk-${n}/v1/chat/completions?x=${n}`);
      await ask(weir, chatBody(), {
        headers: {...bearer(`junk-${n}`), 'x-session-id': `${n}`, 'user-agent': `junk-${n}`},
      });
      const raw = await Raw.connect(weir.url);
      raw.send(`JUNK${n} / HTTP/1.1\r\nhost: junk-${n}\r\nconnection: close\r\n\r\n`);
      await raw.toEnd();
      assert.equal(
        (await to(weir, chatBody({user: `${n}`, metadata: {n}, service_tier: 'auto'}))).status,
        200,
      );
    };
    await junk(0);
    const before = await series();
    await inParallel(
      Array.from({length: 999}, (_, i) => i + 1),
      16,
      junk,
    );
    const after = await series();
    assert.deepEqual(
      [...after].filter((name) => !before.has(name)),
      [],
    );
    assert.ok(![...after].some((name) => /junk/i.test(name)));
  });
});

describe('media types', {timeout: 120_000}, () => {
  test('what is no JSON is refused before its body is read', async (t) => {
    const {weir, upstream} = await started(t);
    const types = [
      'multipart/form-data; boundary=x',
      `multipart/form-data; boundary=${'x'.repeat(5_000)}`,
      'multipart/form-data',
      'text/plain',
      'multipart/mixed; boundary="',
      'application/x-www-form-urlencoded',
      'application/xml',
      'text/html',
      'application/octet-stream',
      'application/x-ndjson',
      'text/json',
      'application/jsonx',
      'application/',
      '/json',
      '*/*',
      'application/json, text/plain',
      'application/grpc',
      'application/msgpack',
      'application/x-pickle',
      'application/yaml',
      'image/png',
    ];
    for (const type of types) {
      for (const route of [
        CHAT,
        '/v1/completions',
        '/v1/embeddings',
        '/v1/responses',
        '/v1/messages',
        '/tokenize',
      ]) {
        const raw = await Raw.connect(weir.url);
        raw.send(
          `POST ${route} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer a\r\ncontent-type: ${type}\r\n` +
            'content-length: 1000000\r\n\r\n',
        );
        const {status} = await raw.response(); // no byte of the body was sent
        raw.drop();
        assert.equal(status, 415, `${route} ${type}`);
      }
    }
    assert.equal(upstream.requests.length, 0);
    for (const type of [
      'application/json',
      'Application/JSON',
      'application/json; charset=utf-8',
      'application/json;charset=UTF-8',
    ]) {
      assert.equal((await to(weir, chatBody(), CHAT, {'content-type': type})).status, 200, type);
    }
  });
});

describe('bodies with two meanings', {timeout: 120_000}, () => {
  const deep = (n) => '['.repeat(n) + ']'.repeat(n);
  const rows = {
    'a key twice': `"user":"a","user":"b"`,
    'a bound twice': `"max_tokens":1,"max_tokens":1000000`,
    'a bound twice, once escaped': `"max_tokens":1,"max\\u005ftokens":1000000`,
    'a model twice, once escaped': `"m\\u006fdel":"other"`,
    'messages twice': `"messages":[]`,
    'a stream flag twice': `"stream":false,"stream":true`,
    'half a surrogate': `"user":"\\ud800"`,
    'NUL outside a string': `"user":\0"a"`,
    'a comment': `/* */"user":"a"`,
    'a comma at the end': `"user":"a",`,
    'single quotes': `'user':'a'`,
    'not a number': `"temperature":NaN`,
    'an infinite number': `"temperature":-Infinity`,
    'a hexadecimal number': `"seed":0x10`,
    'a number with a plus': `"seed":+1`,
    'a number with a leading zero': `"seed":01`,
    'deep arrays': `"x":${deep(100_000)}`,
  };
  for (const [name, text] of Object.entries(rows)) {
    test(`${name}: refused, or one meaning goes out`, async (t) => {
      const {weir, upstream} = await started(t);
      const body = Buffer.from(`{"model":"${NAME}","messages":[{"role":"user","content":"x"}],${text}}`);
      const reply = await to(weir, body);
      assert.equal(reply.status, 400, `${reply.status} ${upstream.requests[0]?.body}`);
      assert.equal(upstream.requests.length, 0);
    });
  }

  const BOUNDS = [
    [CHAT, 'max_tokens'],
    [CHAT, 'max_completion_tokens'],
    [CHAT, 'n'],
    ['/v1/responses', 'max_output_tokens'],
    ['/v1/messages', 'max_tokens'],
  ];
  const bounded = (route, key, value) => {
    const own = route === '/v1/responses' ? '"input":"x"' : '"messages":[{"role":"user","content":"x"}]';
    return Buffer.from(`{"model":"${NAME}",${own},"${key}":${value}}`);
  };

  test('counts that are none are refused on every endpoint', async (t) => {
    const {weir, upstream} = await started(t);
    for (const [route, key] of BOUNDS) {
      for (const value of ['1.5', '"1"', 'true', '[]', '{}', '-0.5', '1e-3', '"1e9"', '[1]']) {
        const reply = await to(weir, bounded(route, key, value), route);
        assert.equal(reply.status, 400, `${route} ${key} ${value}: ${reply.status} ${reply.text}`);
      }
    }
    assert.equal(upstream.requests.length, 0);
    assert.equal((await to(weir, chatBody({n: 2}))).status, 200);
    assert.equal(jsonOf(upstream.requests[0]).n, 2);
  });

  test('counts beyond any number never pass a budget', async (t) => {
    const keys = {a: limited({usd_per_day: 1})};
    const http = {endpoints: ['chat', 'responses']};
    const {weir, upstream} = await hostedWith(t, http, plays([{text: 'x'}]), {keys, price: PRICE});
    for (const [route, key] of BOUNDS) {
      for (const value of ['9223372036854775808', '18446744073709551616', '1e309', '1e18', '9'.repeat(400)]) {
        const reply = await to(weir, bounded(route, key, value), route);
        assert.equal(reply.status, 400, `${route} ${key} ${value}: ${reply.status} ${reply.text}`);
      }
    }
    assert.equal(upstream.requests.length, 0);
  });
});
