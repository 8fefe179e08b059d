// Input that only an attacker or a broken program sends. Each case says what comes back; after all of them the
// server answers as before and holds nothing more than at the start.
import assert from 'node:assert/strict';
import {readFileSync, readdirSync} from 'node:fs';
import path from 'node:path';
import {after, before, describe, test} from 'node:test';

import {Raw, eventually, request} from './support/raw.js';
import {MODEL, Weir, user} from './support/weir.js';

const COMPLETIONS = '/v1/completions';
const ROUNDS = 200;
const SEED = 20_260_101;
const VOCABULARY = 2304;
const utf8 = new TextDecoder('utf-8', {fatal: true});

let weir;
let descriptorsAtStart;
const descriptors = () => readdirSync(`/proc/${weir.child.pid}/fd`).length;

async function send(bytes) {
  const raw = await Raw.connect(weir.url);
  raw.send(bytes);
  try {
    return await raw.response();
  } finally {
    raw.drop();
  }
}

// The refusal of a body: a valid error in valid UTF-8.
async function refused(body, status = 400) {
  const response = await send(request(body));
  const text = utf8.decode(response.body);
  assert.equal(response.status, status, text.slice(0, 300));
  const {error} = JSON.parse(text);
  assert.equal(typeof error.message, 'string');
  return error;
}

const withFields = (fields) => ({model: MODEL, prompt: 'ping', max_tokens: 2, ...fields});
const rawFields = (text) => Buffer.from(`{"model":"${MODEL}","prompt":"ping","max_tokens":2,${text}}`);

// Deterministic, so that a failure can be repeated.
function randomSource(seed) {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

before(async () => {
  weir = await Weir.start((config) => ({
    ...config,
    limits: {head_timeout_ms: 300, body_idle_timeout_ms: 300},
  }));
  await weir.chat({messages: [user('ping')]});
  await eventually('idle descriptors', async () => {
    const open = descriptors();
    descriptorsAtStart = Math.max(descriptorsAtStart ?? 0, open);
    return descriptorsAtStart === open;
  });
});
after(() => weir.stop());

describe('heads', {timeout: 60_000}, () => {
  const cases = {
    'bytes that are no HTTP': [400, Buffer.from(Array.from({length: 4096}, (_, i) => (i * 131 + 128) % 256))],
    'a TLS hello on a plain port': [400, Buffer.from('160301007b0100007703035c0d0a0d0a', 'hex')],
    'the preface of HTTP/2': [400, 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    'only NUL': [400, Buffer.alloc(1024)],
    'a bare line feed': [400, 'GET /healthz HTTP/1.1\nhost: localhost\n\n'],
    'no host': [400, 'GET /healthz HTTP/1.1\r\n\r\n'],
    'two lengths': [
      400,
      `POST ${COMPLETIONS} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\n{}`,
    ],
    'a length and chunks': [
      400,
      `POST ${COMPLETIONS} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`,
    ],
    'a length beyond 64 bits': [
      400,
      `POST ${COMPLETIONS} HTTP/1.1\r\nhost: localhost\r\ncontent-length: ${'9'.repeat(30)}\r\n\r\n`,
    ],
    'a chunk size beyond 64 bits': [
      400,
      `POST ${COMPLETIONS} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n${'f'.repeat(17)}\r\n`,
    ],
    'a long target': [414, `GET /${'a'.repeat(9000)} HTTP/1.1\r\nhost: localhost\r\n\r\n`],
    'a head of 40 KiB': [431, `GET / HTTP/1.1\r\nhost: localhost\r\nx: ${'a'.repeat(40_000)}\r\n\r\n`],
    'a thousand fields': [431, `GET / HTTP/1.1\r\nhost: localhost\r\n${'a: b\r\n'.repeat(1000)}\r\n`],
    'a head that never ends': [408, 'GET /healthz HTTP/1.1\r\nhost: localhost\r\n'],
    'a body that never ends': [
      408,
      `POST ${COMPLETIONS} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{"mo`,
    ],
  };
  for (const [name, [status, bytes]] of Object.entries(cases)) {
    test(name, async () => {
      const response = await send(bytes);
      assert.equal(response.status, status, String(response.body));
      assert.equal(typeof JSON.parse(utf8.decode(response.body)).error.message, 'string');
    });
  }

  test('a head that drips in is refused at its deadline, not at its last byte', async () => {
    const raw = await Raw.connect(weir.url);
    raw.send('GET /healthz HTTP/1.1\r\nx: ');
    const drip = setInterval(() => raw.send('a'), 20);
    assert.ok(await raw.untilText('408'));
    clearInterval(drip);
    raw.drop();
  });
});

describe('bodies', {timeout: 60_000}, () => {
  const cases = {
    'deep arrays': Buffer.from(`{"model":"${MODEL}","prompt":${'['.repeat(50_000)}${']'.repeat(50_000)}}`),
    'deep objects': rawFields(`"x":${'{"a":'.repeat(50_000)}1${'}'.repeat(50_000)}`),
    'deep and never closed': Buffer.from('['.repeat(1_000_000)),
    'a number of a million digits': rawFields(`"seed":${'9'.repeat(1_000_000)}`),
    'an exponent beyond any': rawFields('"temperature":1e999999'),
    'not a number': rawFields('"temperature":NaN'),
    'a float for a count': withFields({n: 1.5}),
    'invalid UTF-8': Buffer.from(String(rawFields('"user":"?"')).replace('?', '\xff'), 'latin1'),
    'an overlong encoding': Buffer.concat([Buffer.from('{"a":"'), Buffer.from([0xc0, 0x80]), Buffer.from('"}')]),
    'half a surrogate pair': rawFields('"user":"\\ud800"'),
    'a control character': rawFields('"user":"\n"'),
    'a NUL byte outside a string': Buffer.from('{"model":\0"x"}'),
    'a NUL after the end': Buffer.concat([Buffer.from(JSON.stringify(withFields({}))), Buffer.from([0])]),
    'two documents': Buffer.from('{}{}'),
    'a key twice': rawFields('"max_tokens":3'),
    'a key twice inside': rawFields('"stream_options":{"a":1,"a":2}'),
    'a billion choices': withFields({n: 1e9}),
    'more choices than allowed': withFields({n: 17}),
    'choices times prompts': withFields({n: 4, prompt: Array(16).fill('a')}),
    '64 prompts': withFields({prompt: Array(64).fill('a')}),
    'no prompt in the list': withFields({prompt: []}),
    'an empty prompt': withFields({prompt: ''}),
    'no ids': withFields({prompt: [[]]}),
    'an id beyond the vocabulary': withFields({prompt: [1, VOCABULARY]}),
    'an id beyond 32 bits': withFields({prompt: [2 ** 32 + 1]}),
    'a negative id': withFields({prompt: [-1]}),
    'a biased id beyond the vocabulary': withFields({logit_bias: {[VOCABULARY]: 1}}),
    'a biased negative id': withFields({logit_bias: {'-1': 1}}),
    'an empty stop string': withFields({stop: ''}),
    'a stop string of 1025 bytes': withFields({stop: 'a'.repeat(1025)}),
    'seventeen stop strings': withFields({stop: Array(17).fill('a')}),
    'a stop string in a list in a list': withFields({stop: [['a']]}),
    'no tokens wanted': withFields({max_tokens: 0}),
    'tokens beyond 64 bits': rawFields('"max_completion_tokens":99999999999999999999'),
  };
  for (const [name, body] of Object.entries(cases)) test(name, () => refused(body));

  test('what an error quotes stays valid UTF-8 wherever it is cut', async () => {
    for (let i = 0; i < 4; ++i) {
      const long = 'x'.repeat(i) + '\u20ac\u{1f600}'.repeat(60);
      await refused(Buffer.from(`{"${long}":1,"${long}":2}`));
      await refused(withFields({model: long}), 404);
      const part = [{role: 'user', content: [{type: long, text: ''}]}];
      const response = await send(request({model: MODEL, messages: part}, {route: '/v1/chat/completions'}));
      assert.equal(response.status, 400);
      JSON.parse(utf8.decode(response.body));
    }
  });

  test('a prompt of 10 MB does not fit, and ids neither', async () => {
    for (const prompt of ['ping '.repeat(2_000_000), Array(1_000_000).fill(1)])
      assert.equal((await refused(withFields({prompt}))).code, 'context_length_exceeded');
  });

  test('NUL and stop strings of odd sizes are text like any other', async () => {
    for (const stop of ['\0', 'a'.repeat(1024), '\u{1f600}', Array(16).fill('zz'), ['\ud7ff', '\n']]) {
      const {status, body} = await send(request(withFields({prompt: 'a\0b', echo: true, stop})));
      assert.equal(status, 200, String(body));
      assert.ok(JSON.parse(utf8.decode(body)).choices[0].text.startsWith('a\0b'));
    }
  });
});

describe('streams', {timeout: 120_000}, () => {
  // Single-byte tokens of two accented letters, drawn at random: whole characters, torn ones and stray bytes.
  const byteTokens = () => {
    const file = path.join(weir.config.targets[0].engine.model_dir, 'tiktoken.model');
    const ranks = new Map(readFileSync(file, 'utf8').trim().split('\n').map((line) => line.split(' ')));
    return [0xc3, 0xa8, 0xa9, 0x41].map((byte) =>
      Number(ranks.get(Buffer.from([byte]).toString('base64'))),
    );
  };

  test('characters split across tokens: every chunk is valid UTF-8, all of them make the whole answer', async () => {
    const fields = withFields({
      max_tokens: 300,
      temperature: 2,
      frequency_penalty: 2, // an even draw, whatever the model prefers
      n: 4,
      seed: SEED,
      logit_bias: Object.fromEntries(byteTokens().map((id) => [id, 100])),
    });
    const whole = JSON.parse(utf8.decode((await send(request(fields))).body));
    const {status, chunks} = await send(request({...fields, stream: true}));
    assert.equal(status, 200);
    const texts = ['', '', '', ''];
    for (const chunk of chunks) {
      for (const line of utf8.decode(chunk).split('\n\n')) {
        if (!line.startsWith('data: {')) continue;
        for (const choice of JSON.parse(line.slice(6)).choices) texts[choice.index] += choice.text;
      }
    }
    assert.deepEqual(texts, whole.choices.map((choice) => choice.text));
    assert.match(texts.join(''), /[\u00e8\u00e9]/u);
    assert.match(texts.join(''), /\ufffd/);
  });

  test('pipelined requests are answered in order', async () => {
    const raw = await Raw.connect(weir.url);
    const get = (target) => `GET ${target} HTTP/1.1\r\nhost: localhost\r\n\r\n`;
    raw.send(get('/healthz') + get('/v1/models'));
    raw.send(request(withFields({stream: true})));
    raw.send(request(withFields({n: 17})));
    raw.send(get('/nothing') + get('/healthz'));
    const seen = [];
    for (let i = 0; i < 6; ++i) {
      const {status, body} = await raw.response();
      seen.push(status);
      if (i === 2) assert.ok(String(body).endsWith('data: [DONE]\n\n'));
    }
    assert.deepEqual(seen, [200, 200, 200, 400, 404, 200]);
    raw.drop();
  });

  test(`${ROUNDS} connections dropped at random points`, async () => {
    const random = randomSource(SEED);
    const bytes = request(withFields({max_tokens: 400, stream: true, n: 2, logit_bias: {2050: -100}}));
    const one = async () => {
      const raw = await Raw.connect(weir.url);
      const cut = random(4);
      if (cut === 0) {
        raw.send(bytes.subarray(0, random(bytes.length)));
      } else {
        raw.send(bytes);
        const wanted = cut === 1 ? 0 : random(5000);
        await raw.until((got) => got.length >= wanted);
      }
      if (random(2) === 0) raw.drop();
      else raw.reset();
    };
    for (let i = 0; i < ROUNDS; i += 20) await Promise.all(Array.from({length: 20}, one));
  });
});

describe('after all of it', {timeout: 60_000}, () => {
  test('nothing runs, nothing is held, and a request is answered', async () => {
    const zero = async (pattern) => (await weir.metric(pattern)).every((value) => value === 0);
    await eventually('no sequence runs', () => zero(/^weir_engine_sequences\{/));
    await eventually('no request in flight', () => zero(/^weir_requests_in_flight/));
    await eventually('no body is held', () => zero(/^weir_body_bytes/));
    await eventually('no page is held', () => zero(/^weir_engine_pool_bytes\{.*kind="pages"/));
    const answer = await weir.chat({messages: [user('What is the capital of Kenya?')]});
    assert.match(answer.choices[0].message.content, /Nairobi/);
    await eventually('descriptors as at the start', () => descriptors() <= descriptorsAtStart);
    assert.doesNotMatch(weir.log, /fault/);
  });
});
