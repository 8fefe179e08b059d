// Every refusal reaches users of the official SDK as the right class, with code, parameter and request id.
import assert from 'node:assert/strict';
import {after, before, describe, test} from 'node:test';

import OpenAI from 'openai';

import {MODEL, Weir, authFor, user} from './support/weir.js';

const CAPITAL = user('What is the capital of Kenya?');
const CAPITAL_ANSWER = 'The capital of Kenya is Nairobi.';

// Bans the tokens that end a turn, so that generation goes on to its limit.
const ENDLESS = {2049: -100, 2050: -100, 2057: -100};

describe('openai errors', () => {
  const KEY = 'sk-of-the-tests';
  let weir, client;
  before(async () => {
    weir = await Weir.start((config, dir) => ({
      ...config,
      auth: authFor(KEY, dir),
      limits: {body_bytes: 65536},
      targets: [{name: 'embedded', engine: {...config.targets[0].engine, sequences: 1, queue: 14}}],
    }));
    client = new OpenAI({baseURL: weir.base, apiKey: KEY, maxRetries: 0});
  });
  after(() => weir.stop());

  const chat = (fields) => client.chat.completions.create({model: MODEL, messages: [CAPITAL], ...fields});
  const rows = [
    [
      'wrong key',
      () => client.withOptions({apiKey: 'sk-wrong'}).models.list(),
      OpenAI.AuthenticationError,
      401,
      'invalid_api_key',
    ],
    ['unknown model', () => chat({model: 'gpt-none'}), OpenAI.NotFoundError, 404, 'model_not_found', 'model'],
    [
      'unknown model retrieved',
      () => client.models.retrieve('gpt-none'),
      OpenAI.NotFoundError,
      404,
      'model_not_found',
      'model',
    ],
    [
      'unknown path',
      () => client.moderations.create({input: 'x'}),
      OpenAI.NotFoundError,
      404,
      'unknown_url',
    ],
    ['method', () => client.delete('/models'), OpenAI.APIError, 405, 'method_not_allowed'],
    [
      'context',
      () => chat({messages: [user('a b c '.repeat(5000))]}),
      OpenAI.BadRequestError,
      400,
      'context_length_exceeded',
      'messages',
    ],
    [
      'context by max_tokens',
      () => chat({max_tokens: 9000}),
      OpenAI.BadRequestError,
      400,
      'context_length_exceeded',
      'messages',
    ],
    ['no messages', () => chat({messages: []}), OpenAI.BadRequestError, 400, null, 'messages'],
    [
      'role',
      () => chat({messages: [{role: 'robot', content: 'x'}]}),
      OpenAI.BadRequestError,
      400,
      null,
      'messages[0].role',
    ],
    ['temperature', () => chat({temperature: 3}), OpenAI.BadRequestError, 400, null, 'temperature'],
    ['n', () => chat({n: 1000}), OpenAI.BadRequestError, 400, null, 'n'],
    [
      'an image',
      () => chat({messages: [user([{type: 'image_url', image_url: {url: 'data:image/png;base64,AA=='}}])]}),
      OpenAI.BadRequestError,
      400,
      'unsupported_feature',
      'messages',
    ],
    [
      'a JSON schema',
      () =>
        chat({response_format: {type: 'json_schema', json_schema: {name: 'x', schema: {type: 'array', contains: {}}}}}),
      OpenAI.BadRequestError,
      400,
      null,
      'response_format',
    ],
    [
      'body size',
      () => chat({messages: [user('x'.repeat(100_000))]}),
      OpenAI.APIError,
      413,
      'request_too_large',
    ],
    [
      'full queue',
      () => {
        const over = new AbortController();
        const body = {model: MODEL, messages: [CAPITAL], n: 15, logit_bias: ENDLESS, max_tokens: 200};
        const both = [1, 2].map(() => client.chat.completions.create(body, {signal: over.signal}));
        Promise.allSettled(both);
        return Promise.race(both).finally(() => over.abort());
      },
      OpenAI.InternalServerError,
      503,
      'overloaded',
    ],
    ['more choices than fit at all', () => chat({n: 16}), OpenAI.BadRequestError, 400, null, 'n'],
    [
      'an error before a stream starts',
      () => chat({stream: true, temperature: 3}),
      OpenAI.BadRequestError,
      400,
      null,
      'temperature',
    ],
  ];
  for (const [name, act, type, status, code, param = null] of rows) {
    test(name, async () => {
      const error = await act().then(
        () => assert.fail('no error'),
        (e) => e,
      );
      assert.ok(error instanceof type, `${error.constructor.name}: ${error.message}`);
      assert.equal(error.status, status);
      assert.equal(error.code, code);
      assert.equal(error.param, param);
      assert.match(error.requestID, /.+/);
      assert.ok(error.message.length > status.toString().length + 1);
    });
  }

  test('no key at all', async () => {
    const response = await fetch(`${weir.base}/models`);
    assert.equal(response.status, 401);
    assert.match(response.headers.get('www-authenticate'), /Bearer/);
  });

  test('the right key', async () => {
    assert.equal((await chat({})).choices[0].message.content, CAPITAL_ANSWER);
  });
});
