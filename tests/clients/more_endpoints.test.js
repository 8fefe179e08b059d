// Embeddings, responses and tokenizing: under the same keys, limits, prices and failover as chat.
import assert from 'node:assert/strict';
import {describe, test} from 'node:test';

import OpenAI from 'openai';

import {ask} from './support/client.js';
import {hostedWith, jsonOf} from './support/hosted.js';
import {PRICE, headers, limited, refused} from './support/limits.js';
import {NAME, assertFailed, logLine, target, upstreamOf} from './support/relay.js';
import {bearer} from './support/routing.js';
import {LAST_CHUNK, SSE_FIELDS, chunk, head, jsonReply, replies} from './support/upstream.js';
import {MODEL, Weir, user} from './support/weir.js';

const RICH = {keys: {a: limited({usd_per_day: 1000})}, price: PRICE};
const client = (weir) => new OpenAI({baseURL: weir.base, apiKey: 'a', maxRetries: 0});
const near = (usd, wanted) => assert.ok(Math.abs(usd - wanted) < 1e-9, `${usd} instead of ${wanted}`);
const costOf = async (weir, response) => (await logLine(weir, {headers: headers(response)})).cost_usd;

describe('POST /v1/embeddings', {timeout: 120_000}, () => {
  const VECTOR = [0.5, -0.25, 1];
  const embed = (request, socket) => {
    const {input, encoding_format} = jsonOf(request);
    const base64 = Buffer.from(new Float32Array(VECTOR).buffer).toString('base64');
    const embedding = encoding_format === 'base64' ? base64 : VECTOR;
    const data = [input].flat().map((text, index) => ({object: 'embedding', index, embedding}));
    const usage = {prompt_tokens: 30, total_tokens: 30};
    socket.write(jsonReply({object: 'list', data, model: 'served', usage}));
  };

  test('float and base64 through the SDK; prompt tokens are charged and nothing else', async (t) => {
    const {weir, upstream} = await hostedWith(t, {model: 'served'}, embed, RICH);
    for (const encoding_format of [undefined, 'float', 'base64']) {
      const asked = {model: NAME, input: ['one', 'two'], ...(encoding_format && {encoding_format}), dimensions: 3};
      const {data, response} = await client(weir).embeddings.create(asked).withResponse();
      assert.equal(data.data.length, 2);
      if (encoding_format !== 'base64') assert.deepEqual([...data.data[1].embedding], VECTOR);
      near(await costOf(weir, response), (30 * 2) / 1e6);
      const {model, input, dimensions, ...rest} = jsonOf(upstream.requests.at(-1));
      assert.deepEqual({model, input, dimensions}, {model: 'served', input: ['one', 'two'], dimensions: 3});
      assert.deepEqual(Object.keys(rest), ['encoding_format']);
      assert.equal(upstream.requests.at(-1).path, '/v1/embeddings');
    }
  });

  test('keys, limits and budgets hold', async (t) => {
    const keys = {
      a: limited({requests_per_min: 1}),
      small: limited({tokens_per_min: 20}),
      poor: limited({usd_per_day: 0.000001}),
    };
    const {weir, upstream} = await hostedWith(t, {}, embed, {keys, price: PRICE});
    const sent = (key) => weir.post('/v1/embeddings', {model: NAME, input: 'one'}, bearer(key));
    await refused(await sent('nobody'), 401, 'invalid_api_key');
    await refused(await sent('small'), 400, 'request_exceeds_limit');
    await refused(await sent('poor'), 400, 'request_exceeds_limit');
    await refused(await weir.post('/v1/embeddings', {model: NAME}, bearer('a')), 400, null);
    assert.equal(upstream.requests.length, 0);
    assert.equal((await sent('a')).status, 200);
    await refused(await sent('a'), 429, 'rate_limit_exceeded');
  });

  test('a target that has none is not asked, and one that breaks is replaced', async (t) => {
    const weir = await Weir.start();
    t.after(() => weir.stop());
    await refused(await weir.post('/v1/embeddings', {model: MODEL, input: 'one'}), 400, 'unsupported_feature');
    const good = await upstreamOf(t, embed);
    const pair = await hostedWith(t, {}, (request, socket) => socket.destroy(), {targets: [target(good, {}, 'r2')]});
    for (let i = 0; i < 4; ++i) {
      assert.equal((await pair.weir.post('/v1/embeddings', {model: NAME, input: 'x'}, bearer('a'))).status, 200);
    }
  });
});

describe('POST /v1/responses', {timeout: 120_000}, () => {
  const SPEAKS = {endpoints: ['chat', 'responses']};
  const USAGE = {
    input_tokens: 100,
    input_tokens_details: {cached_tokens: 60},
    output_tokens: 10,
    output_tokens_details: {reasoning_tokens: 0},
    total_tokens: 110,
  };
  const COST = (40 * 2 + 60 * 0.2 + 10 * 8) / 1e6;
  const text = {type: 'output_text', text: 'Nairobi', annotations: []};
  const item = {id: 'msg_1', type: 'message', role: 'assistant', status: 'completed', content: [text]};
  const response = (fields = {}) => ({
    id: 'resp_1', object: 'response', created_at: 1, status: 'completed', model: 'served', output: [item], usage: USAGE, ...fields,
  });
  const part = {item_id: 'msg_1', output_index: 0, content_index: 0};
  const created = {type: 'response.created', response: response({status: 'in_progress', output: [], usage: null})};
  const opened = {type: 'response.output_item.added', output_index: 0, item: {...item, content: [], status: 'in_progress'}};
  const partOpened = {type: 'response.content_part.added', ...part, part: {...text, text: ''}};
  const said = (words) => ({type: 'response.output_text.delta', ...part, delta: words, logprobs: []});
  const EVENTS = [
    created,
    opened,
    partOpened,
    said('Nai'),
    said('robi'),
    {type: 'response.output_text.done', ...part, text: 'Nairobi', logprobs: []},
    {type: 'response.content_part.done', ...part, part: text},
    {type: 'response.output_item.done', output_index: 0, item},
    {type: 'response.completed', response: response()},
  ];
  const framed = (events) => events.map((value, i) => `event: ${value.type}\ndata: ${JSON.stringify({...value, sequence_number: i})}\n\n`);
  const stream = (events, end = LAST_CHUNK) =>
    Buffer.concat([
      Buffer.from(head(200, {...SSE_FIELDS, 'transfer-encoding': 'chunked'})),
      ...framed(events).map(chunk),
      Buffer.from(end),
    ]);
  const asked = (fields = {}) => ({model: NAME, input: 'ping', ...fields});
  const sent = (weir, fields) =>
    ask(weir, asked(fields), {route: '/v1/responses', headers: bearer('a')});

  test('whole, through the SDK: relayed as it is, kept by nobody, each token charged once', async (t) => {
    const {weir, upstream} = await hostedWith(t, SPEAKS, replies(jsonReply(response())), RICH);
    const fields = {max_output_tokens: 50, tools: [{type: 'function', name: 'add', parameters: {}, strict: false}]};
    const {data, response: reply} = await client(weir).responses.create(asked(fields)).withResponse();
    assert.equal(data.output_text, 'Nairobi');
    assert.equal(upstream.requests[0].path, '/v1/responses');
    assert.deepEqual(jsonOf(upstream.requests[0]), {...asked(fields), store: false});
    near(await costOf(weir, reply), COST);
  });

  test('a stream, through the SDK: bytes unchanged, and the same charge', async (t) => {
    const {weir, upstream} = await hostedWith(t, SPEAKS, replies(stream(EVENTS)), RICH);
    const {data, response: reply} = await client(weir).responses.create(asked({stream: true})).withResponse();
    let words = '';
    let last;
    for await (const value of data) {
      if (value.type === 'response.output_text.delta') words += value.delta;
      last = value.type;
    }
    assert.deepEqual([words, last], ['Nairobi', 'response.completed']);
    near(await costOf(weir, reply), COST);
    assert.equal(jsonOf(upstream.requests[0]).stream_options, undefined);
    assert.equal((await sent(weir, {stream: true})).text, framed(EVENTS).join(''));
    upstream.script(replies(Buffer.concat([stream(EVENTS, ''), chunk('data: [DONE]\n\n'), Buffer.from(LAST_CHUNK)])));
    const reply2 = await sent(weir, {stream: true});
    assert.equal(reply2.ended, 'complete');
  });

  test('A1: a first event that is an error is tried elsewhere', async (t) => {
    for (const failure of [
      {type: 'error', code: 'server_error', message: 'boom', param: null},
      {type: 'response.failed', response: response({status: 'failed', error: {code: 'server_error', message: 'boom'}})},
    ]) {
      const good = await upstreamOf(t, replies(stream(EVENTS)));
      const {weir} = await hostedWith(t, SPEAKS, replies(stream([created, failure])), {
        targets: [target(good, SPEAKS, 'r2')],
      });
      for (let i = 0; i < 4; ++i) assert.equal((await sent(weir, {stream: true})).text, framed(EVENTS).join(''));
    }
  });

  test('A3: a stream that ends without its last event ends in an error', async (t) => {
    const {weir} = await hostedWith(t, SPEAKS, replies(stream(EVENTS.slice(0, 4))));
    const reply = await sent(weir, {stream: true});
    assert.equal(reply.ended, 'aborted');
    assert.match(reply.text, /data: \{"error":.*stream_interrupted/);
  });

  test('what a target would keep or do by itself is refused, as is a model without such a target', async (t) => {
    const {weir, upstream} = await hostedWith(t, SPEAKS, replies(jsonReply(response())));
    for (const [param, value] of Object.entries({
      previous_response_id: 'resp_0',
      conversation: 'conv_1',
      prompt: {id: 'p'},
      background: true,
      tools: [{type: 'mcp', server_label: 'x', server_url: 'http://169.254.169.254/'}],
    })) {
      const error = assertFailed(await sent(weir, {[param]: value}), 400, null, param);
      assert.equal(error.param, param);
    }
    assert.equal(upstream.requests.length, 0);
    const plain = await hostedWith(t, {}, replies(jsonReply(response())));
    assertFailed(await sent(plain.weir), 400, 'unsupported_feature');
    assert.equal(plain.upstream.requests.length, 0);
  });

  test('with a budget the answer is bounded', async (t) => {
    const more = {limits: {default_output_tokens: 77}};
    const {weir, upstream} = await hostedWith(t, SPEAKS, replies(jsonReply(response())), {...RICH, more});
    await sent(weir);
    assert.equal(jsonOf(upstream.requests[0]).max_output_tokens, 77);
  });
});

describe('POST /tokenize', {timeout: 120_000}, () => {
  test('as the model reads it: a prompt, a chat, their tokens as text', async (t) => {
    const weir = await Weir.start();
    t.after(() => weir.stop());
    const prompt = 'The capital of Kenya is Nairobi – 東京.';
    for (const path of ['/tokenize', '/v1/tokenize']) {
      const got = await (await weir.post(path, {model: MODEL, prompt, return_token_strs: true})).json();
      assert.equal(got.count, got.tokens.length);
      assert.equal(got.token_strs.length, got.count);
      assert.ok(got.token_strs.join('').startsWith('The capital of Kenya'));
      assert.ok(got.max_model_len > 0);
      const completion = await (await weir.post('/v1/completions', {model: MODEL, prompt, max_tokens: 1})).json();
      assert.equal(got.count, completion.usage.prompt_tokens);
    }
    const messages = [user('What is the capital of Kenya?')];
    const chat = await (await weir.post('/tokenize', {model: MODEL, messages})).json();
    assert.equal(chat.token_strs, null);
    assert.equal(chat.count, (await weir.chat({messages, max_tokens: 1})).usage.prompt_tokens);
    for (const body of [{model: MODEL}, {model: MODEL, prompt, messages}]) {
      await refused(await weir.post('/tokenize', body), 400, null);
    }
    await refused(await weir.post('/tokenize', {model: MODEL, messages, add_generation_prompt: false}), 400, 'unsupported_feature');
    await refused(await weir.post('/tokenize', {model: 'junk', prompt}), 404, 'model_not_found');
  });
});

describe('paths', {timeout: 120_000}, () => {
  test('only those of the list exist, whatever a key may do, and none without a key', async (t) => {
    const {weir, upstream} = await hostedWith(t, {}, replies(jsonReply({})));
    for (const path of [
      '/v1/audio/speech', '/v1/images/generations', '/v1/responses/resp_1', '/v1/responses/compact', '/v1/messages/batches',
      '/detokenize', '/rerank', '/pooling', '/v1/embeddings/', '/v1//embeddings', '/v1/%65mbeddings', '/invocations',
    ]) {
      const answer = await weir.post(path, {model: NAME, input: 'x'}, bearer('a'));
      assert.ok(answer.status === 404 || answer.status === 405 || answer.status === 400, `${path} ${answer.status}`);
    }
    for (const path of ['/v1/embeddings', '/v1/responses', '/v1/messages', '/v1/messages/count_tokens', '/tokenize', '/v1/tokenize']) {
      assert.equal((await weir.post(path, {model: NAME})).status, 401, path);
    }
    const hosts = {api_base: 'http://127.0.0.1:9', base_url: 'http://127.0.0.1:9', api_key: 'x'};
    await weir.post('/v1/embeddings', {model: NAME, input: 'x', ...hosts}, {...bearer('a'), 'x-forwarded-host': 'evil'});
    assert.equal(upstream.requests.length, 1);
    assert.equal(upstream.requests[0].headers.host, `127.0.0.1:${upstream.port}`);
    assert.equal(upstream.requests[0].headers['x-forwarded-host'], undefined);
  });
});
