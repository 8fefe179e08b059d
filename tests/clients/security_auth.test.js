// Only a whole, exact key opens, and it opens as itself: keys that are nearly one, keys that share most of
// their characters, credentials in odd places.
import assert from 'node:assert/strict';
import {describe, test} from 'node:test';

import {CHAT, Client, ask} from './support/client.js';
import {Raw} from './support/raw.js';
import {NAME, chatBody, inParallel, randomSource, relayOf, target, upstreamOf} from './support/relay.js';
import {keysOf} from './support/routing.js';
import {LAST_CHUNK, chunk} from './support/upstream.js';

const KEY = 'sk-weir-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGH';
const SEED = 20_261_130;
const FUZZED = 20_000;
const AT_ONCE = 50;

// Weir with these keys ({key: terms}) in front of a replica that answers.
async function keyed(t, keys, models = [NAME]) {
  const upstream = await upstreamOf(t);
  const weir = await relayOf(t, [target(upstream)], (config, dir) => ({
    ...config,
    log: {access: false},
    auth: keysOf(keys, dir),
    models: models.map((name) => ({name, targets: ['r1']})),
  }));
  return {weir, upstream};
}

const get = (lines) => Buffer.from(`GET /v1/models HTTP/1.1\r\nhost: x\r\n${lines}\r\n`, 'latin1');
const byBearer = (value) => get(`authorization: Bearer ${value}\r\n`);

// The answers to requests that are sent at once over one connection.
async function pipelined(weir, requests) {
  const raw = await Raw.connect(weir.url);
  raw.send(Buffer.concat(requests));
  const answers = [];
  for (const {length} = requests; answers.length < length;) answers.push(await raw.response());
  raw.drop();
  return answers;
}

// The answer to these very bytes.
async function one(weir, bytes) {
  const [answer] = await pipelined(weir, [bytes]);
  return answer;
}

const FRAGMENTS = [
  KEY,
  KEY.slice(0, 20),
  KEY.slice(-20),
  KEY.slice(1),
  KEY.slice(0, -1),
  KEY.toUpperCase(),
  KEY.toLowerCase(),
  "'",
  '"',
  '`',
  '--',
  '/*',
  '*',
  '%',
  '_',
  '?',
  '.*',
  '\\',
  ';',
  ',',
  ' ',
  '\t',
  '=',
  '==',
  '%00',
  '\\0',
  '\\u0000',
  "' OR '1'='1",
  '" or ""="',
  "'; DROP TABLE keys; --",
  '$(id)',
  '${7*7}',
  '{{7*7}}',
  '../',
  'null',
  'undefined',
  'true',
  '0',
  '-1',
  '[]',
  '{}',
  '\x80',
  '\xff',
  '\xc0\x80',
  '\xef\xbb\xbf',
  '\xe2\x80\x8b',
  '\xc2\xa0',
  'key_0',
  'key/',
  'key:',
  'tests',
  'loopback',
  'admin',
  'Bearer ',
  'sk-',
  'a',
];

// A value that is no key, of what a field may hold.
function fuzzed(random) {
  let value = '';
  for (let parts = 1 + random(5); parts > 0; --parts) {
    if (random(3) > 0) value += FRAGMENTS[random(FRAGMENTS.length)];
    else for (let n = random(12); n > 0; --n) value += String.fromCharCode(0x21 + random(0x5e));
  }
  if (random(200) === 0) value = value.padEnd(random(8_000), value || 'x').slice(0, 8_000);
  return value;
}

describe('keys that are nearly one', {timeout: 600_000}, () => {
  test(`${FUZZED} values, seed ${SEED}: none opens, and the answer is one`, async (t) => {
    const {weir, upstream} = await keyed(t, {[KEY]: 't'});
    const random = randomSource(SEED);
    const bodies = new Set();
    const rounds = Array.from({length: FUZZED / AT_ONCE}, () =>
      Array.from({length: AT_ONCE}, () => fuzzed(random)),
    );
    await inParallel(rounds, 4, async (values) => {
      const wrong = values.filter((value) => value.trim() !== KEY);
      const answers = await pipelined(weir, wrong.map(byBearer));
      answers.forEach(({status, body}, i) => {
        assert.equal(status, 401, wrong[i]);
        if (wrong[i].trim()) bodies.add(String(body));
      });
    });
    assert.equal(bodies.size, 1, [...bodies].join('\n'));
    assert.ok(![...bodies][0].includes(KEY.slice(0, 8)));
    assert.equal((await one(weir, byBearer(KEY))).status, 200);
    assert.equal(upstream.requests.length, 0);
  });

  test('every part of a key, every key with a character changed, added or taken away', async (t) => {
    const {weir} = await keyed(t, {[KEY]: 't'});
    const near = [];
    for (let i = 0; i < KEY.length; ++i) {
      near.push(KEY.slice(0, i), KEY.slice(i + 1), KEY.slice(0, i) + KEY.slice(i + 1));
      for (const c of [
        'x',
        '\xff',
        '%',
        '*',
        '"',
        '\\',
        KEY[i] === KEY[i].toUpperCase() ? KEY[i].toLowerCase() : KEY[i].toUpperCase(),
      ]) {
        near.push(KEY.slice(0, i) + c + KEY.slice(i + 1), KEY.slice(0, i) + c + KEY.slice(i));
      }
    }
    near.push(
      `${KEY}x`,
      `${KEY} x`,
      `${KEY},${KEY}`,
      `${KEY}${KEY}`,
      `"${KEY}"`,
      `<${KEY}>`,
      `${KEY}\xc2\xa0`,
      `\xef\xbb\xbf${KEY}`,
    );
    const wrong = [...new Set(near)].filter((value) => value.trim() !== KEY);
    for (let i = 0; i < wrong.length; i += AT_ONCE) {
      const part = wrong.slice(i, i + AT_ONCE);
      (await pipelined(weir, part.map(byBearer))).forEach(({status}, n) =>
        assert.equal(status, 401, part[n]),
      );
    }
    assert.ok(wrong.length > 500, `${wrong.length}`);
  });

  test('control bytes, folded lines and fields that are none are no HTTP', async (t) => {
    const {weir} = await keyed(t, {[KEY]: 't'});
    const rows = [
      ...[0, 1, 7, 8, 0x0a, 0x0b, 0x0c, 0x0d, 0x1b, 0x7f].flatMap((code) => {
        const c = String.fromCharCode(code);
        return [
          `authorization: Bearer ${KEY}${c}\r\n`,
          `authorization: Bearer${c}${KEY}\r\n`,
          `authorization: ${c}Bearer ${KEY}\r\n`,
        ];
      }),
      `authorization:\r\n Bearer ${KEY}\r\n`,
      `authorization: Bearer\r\n\t${KEY}\r\n`,
      `authorization : Bearer ${KEY}\r\n`,
      ` authorization: Bearer ${KEY}\r\n`,
      `authorization\t: Bearer ${KEY}\r\n`,
      `auth orization: Bearer ${KEY}\r\n`,
      `authorization Bearer ${KEY}\r\n`,
      `authorizat\xefon: Bearer ${KEY}\r\n`,
      `: Bearer ${KEY}\r\n`,
      `x_api_key: ${KEY}\r\n`,
      `x-api_key: ${KEY}\r\n`,
    ];
    for (const lines of rows) assert.equal((await one(weir, get(lines))).status, 400, JSON.stringify(lines));
  });
});

// One character differs, at every place; each key may use one model, by which it is known.
function family() {
  const keys = {};
  const models = [];
  const add = (key) => {
    if (key in keys) return;
    models.push(`m${models.length}`);
    keys[key] = {tenant: `t${models.length}`, models: [models.at(-1)]};
  };
  add(KEY);
  for (let n = 1; n < KEY.length; ++n) {
    const other = 'Z'.repeat(KEY.length);
    add(KEY.slice(0, n) + other.slice(n)); // the first n alike
    add(other.slice(n) + KEY.slice(-n)); // the last n alike
    add(KEY.slice(0, n)); // a part
    add(KEY.slice(0, n) + (KEY[n] === 'Y' ? 'X' : 'Y') + KEY.slice(n + 1)); // all but one alike
  }
  return {keys, models};
}

describe('keys that share most of their characters', {timeout: 600_000}, () => {
  test('each is itself, in turn on one connection and on many at once', async (t) => {
    const {keys, models} = family();
    const all = Object.keys(keys);
    assert.ok(all.length > 200, `${all.length}`);
    const {weir} = await keyed(t, keys, models);
    const random = randomSource(SEED);
    const rounds = Array.from({length: 200}, () => {
      const [a, b, wrong] = [all[random(all.length)], all[random(all.length)], `${all[random(all.length)]}~`];
      return Array.from({length: AT_ONCE}, (_, i) => [a, b, wrong][i % 3]);
    });
    await inParallel(rounds, 8, async (sent) => {
      (await pipelined(weir, sent.map(byBearer))).forEach(({status, body}, i) => {
        const own = keys[sent[i]]?.models;
        assert.equal(status, own ? 200 : 401, sent[i]);
        if (own)
          assert.deepEqual(
            JSON.parse(body).data.map(({id}) => id),
            own,
            sent[i],
          );
      });
    });
  });

  test('none uses the model of another', async (t) => {
    const {keys, models} = family();
    const {weir, upstream} = await keyed(t, keys, models);
    const all = Object.entries(keys);
    await inParallel(all.slice(0, 60), 8, async ([key, terms]) => {
      const headers = {authorization: `Bearer ${key}`};
      for (const model of models.slice(0, 8)) {
        const {status} = await ask(weir, chatBody({model}), {headers});
        assert.equal(status, terms.models.includes(model) ? 200 : 404, `${key} ${model}`);
      }
    });
    assert.equal(upstream.requests.length, 8);
  });
});

describe('where a key may be', {timeout: 600_000}, () => {
  const basic = (text) => `authorization: Basic ${Buffer.from(text).toString('base64')}\r\n`;
  const right = `Bearer ${KEY}`;
  const rows = {
    200: [
      `authorization: ${right}\r\n`,
      `AUTHORIZATION: ${right}\r\n`,
      `authorization:${right}\r\n`,
      `authorization: bearer ${KEY}\r\n`,
      `authorization: BEARER ${KEY}\r\n`,
      `authorization: Bearer   ${KEY}  \r\n`,
      `x-api-key: ${KEY}\r\n`,
      `X-API-Key: ${KEY}\r\n`,
      `authorization: ${right}\r\nx-api-key: wrong\r\n`,
    ],
    401: [
      '',
      'authorization: \r\n',
      'authorization: Bearer\r\n',
      'authorization: Bearer \r\n',
      `authorization: ${KEY}\r\n`,
      `authorization: Bearer${KEY}\r\n`,
      `authorization: Bearer\t${KEY}\r\n`,
      `authorization: Bearer=${KEY}\r\n`,
      `authorization: Token ${KEY}\r\n`,
      `authorization: Bearer Bearer ${KEY}\r\n`,
      `authorization: Bearer wrong ${KEY}\r\n`,
      `authorization: Basic ${KEY}\r\n`,
      basic(KEY),
      basic(`:${KEY}`),
      basic(`${KEY}:`),
      basic(`user:${KEY}`),
      `authorization: Digest username="${KEY}"\r\n`,
      `authorization: Negotiate ${KEY}\r\n`,
      `authorization: Bearer wrong, ${right}\r\n`,
      `authorization: ${right}, Bearer wrong\r\n`,
      `authorization: ${right};\r\n`,
      // Of two nothing is believed, nor is another field where the first one is wrong.
      `authorization: ${right}\r\nauthorization: ${right}\r\n`,
      `authorization: Bearer x\r\nauthorization: ${right}\r\n`,
      `authorization: ${right}\r\nauthorization: Bearer x\r\n`,
      `authorization: ${right}\r\nauthorization: \r\n`,
      `x-api-key: ${KEY}\r\nx-api-key: ${KEY}\r\n`,
      `x-api-key: wrong\r\nx-api-key: ${KEY}\r\n`,
      `x-api-key: ${right}\r\n`,
      `authorization: Bearer wrong\r\nx-api-key: ${KEY}\r\n`,
      `authorization: \r\nx-api-key: ${KEY}\r\n`,
      `authorization: ${basic(KEY).slice(15, -2)}\r\nx-api-key: ${KEY}\r\n`,
      // Places that others look at.
      `api-key: ${KEY}\r\n`,
      `proxy-authorization: ${right}\r\n`,
      `x-authorization: ${right}\r\n`,
      `x-forwarded-authorization: ${right}\r\n`,
      `x-goog-api-key: ${KEY}\r\n`,
      `x-admin-key: ${KEY}\r\n`,
      `openai-api-key: ${KEY}\r\n`,
      `anthropic-api-key: ${KEY}\r\n`,
      `x-litellm-api-key: ${right}\r\n`,
      `x-portkey-api-key: ${KEY}\r\n`,
      `cookie: authorization=${right}; api_key=${KEY}; token=${KEY}\r\n`,
      `sec-websocket-protocol: openai-insecure-api-key.${KEY}\r\n`,
      `www-authenticate: ${right}\r\n`,
      'x-forwarded-for: 127.0.0.1\r\nx-real-ip: 127.0.0.1\r\nforwarded: for=127.0.0.1\r\n',
      'x-remote-user: tests\r\nx-forwarded-user: admin\r\nremote-user: root\r\nx-user: t\r\nx-tenant: t\r\n',
      `connection: authorization\r\nx-authorization: ${right}\r\n`,
    ],
  };
  for (const [status, all] of Object.entries(rows)) {
    test(`${all.length} heads that ${status === '200' ? 'open' : 'do not open'}`, async (t) => {
      const {weir} = await keyed(t, {[KEY]: 't'});
      for (const lines of all)
        assert.equal((await one(weir, get(lines))).status, Number(status), JSON.stringify(lines));
    });
  }

  test('not in a query, a body, a trailer, nor in the request before', async (t) => {
    const {weir, upstream} = await keyed(t, {[KEY]: 't'});
    const inBody = {api_key: KEY, key: KEY, authorization: right, headers: {authorization: right}, user: KEY};
    for (const query of ['key', 'api_key', 'apikey', 'api-key', 'token', 'access_token', 'authorization']) {
      assert.equal(
        (await ask(weir, chatBody(inBody), {route: `${CHAT}?${query}=${KEY}`})).status,
        401,
        query,
      );
    }
    const client = await Client.connect(weir.url);
    const reply = client.expect();
    client.socket.write(
      `POST ${CHAT} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n` +
        'trailer: authorization\r\n\r\n',
    );
    client.socket.write(chunk(JSON.stringify(chatBody())));
    client.socket.write(LAST_CHUNK.replace('\r\n\r\n', `\r\nauthorization: ${right}\r\n\r\n`));
    assert.equal(await reply.end, 'complete');
    assert.equal(reply.status, 401);
    client.leave();
    // A key opens its own request alone.
    const both = await pipelined(weir, [byBearer(KEY), get(''), byBearer(KEY), byBearer('wrong'), get('')]);
    assert.deepEqual(
      both.map(({status}) => status),
      [200, 401, 200, 401, 401],
    );
    assert.equal(upstream.requests.length, 0);
  });
});
