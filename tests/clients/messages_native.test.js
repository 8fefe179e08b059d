// Anthropic's own client in front of a target that speaks its API: requests and answers pass as they are, also
// those that no chat can say; prices, limits and failover hold as for any other.
import assert from 'node:assert/strict';
import {describe, test} from 'node:test';

import Anthropic from '@anthropic-ai/sdk';

import {ask} from './support/client.js';
import {
  MESSAGES_USAGE,
  UPSTREAM_KEY,
  block,
  hostedWith,
  jsonOf,
  message,
  messageEnd,
  messageStart,
  messagesError,
  namedEvents,
  textBlock,
} from './support/hosted.js';
import {PRICE, headers, limited} from './support/limits.js';
import {NAME, logLine, target, upstreamOf} from './support/relay.js';
import {bearer} from './support/routing.js';
import {chatReply, jsonReply, replies} from './support/upstream.js';
import {user} from './support/weir.js';

const RICH = {keys: {a: limited({usd_per_day: 1000})}, price: PRICE};
const NATIVE = {dialect: 'anthropic', model: 'claude-up'};
const COST = (100 * 2 + 1000 * 0.2 + 200 * 2.5 + 50 * 8) / 1e6;
const near = (usd, wanted) => assert.ok(Math.abs(usd - wanted) < 1e-9, `${usd} instead of ${wanted}`);
const client = (weir, apiKey = 'a') => new Anthropic({baseURL: weir.url, apiKey, maxRetries: 0});
const asked = (fields = {}) => ({model: NAME, max_tokens: 99, messages: [user('ping')], ...fields});
const post = (weir, body, fields = {}) =>
  ask(weir, body, {route: '/v1/messages', headers: {...bearer('a'), ...fields}});

const CACHED = {type: 'text', text: 'Be brief.', cache_control: {type: 'ephemeral'}};
const PDF = {type: 'document', source: {type: 'base64', media_type: 'application/pdf', data: 'JVBERi0='}};
const THOUGHT = [
  {type: 'thinking', thinking: 'hm', signature: 'sig-1'},
  {type: 'redacted_thinking', data: 'opaque'},
  {type: 'text', text: 'Nairobi'},
];

describe('a client and a target of the messages API', {timeout: 120_000}, () => {
  test('a whole answer: signatures, cache marks and versions pass, at its price', async (t) => {
    const {weir, upstream} = await hostedWith(t, NATIVE, replies(jsonReply(message(THOUGHT))), RICH);
    const body = asked({
      system: [CACHED],
      thinking: {type: 'enabled', budget_tokens: 50},
      messages: [user('x'), {role: 'assistant', content: THOUGHT}, user('y')],
      metadata: {user_id: 'u'},
    });
    const {data, response} = await client(weir)
      .messages.create(body, {headers: {'anthropic-beta': 'one-2026-01-01,two-2026-02-02'}})
      .withResponse();
    const [request] = upstream.requests;
    assert.equal(request.path, '/v1/messages');
    assert.equal(request.headers['x-api-key'], UPSTREAM_KEY);
    assert.equal(request.headers['anthropic-beta'], 'one-2026-01-01,two-2026-02-02');
    assert.match(request.headers['anthropic-version'], /^\d{4}-\d{2}-\d{2}$/);
    assert.ok(!('authorization' in request.headers));
    assert.deepEqual(jsonOf(request), {...body, model: 'claude-up'});
    const {_request_id, ...said} = data;
    assert.deepEqual(said, message(THOUGHT));
    assert.equal(headers(response)['request-id'], headers(response)['x-request-id']);
    near((await logLine(weir, {headers: headers(response)})).cost_usd, COST);
  });

  test('a stream passes byte by byte and is charged the same', async (t) => {
    const events = [
      messageStart,
      {type: 'ping'},
      ...block(0, {type: 'thinking', thinking: '', signature: ''}, {type: 'thinking_delta', thinking: 'hm'}, {type: 'signature_delta', signature: 'sig-1'}),
      ...textBlock(1, 'Nai', 'robi'),
      ...messageEnd(),
    ];
    const {weir} = await hostedWith(t, NATIVE, replies(namedEvents(events)), RICH);
    const reply = await post(weir, asked({stream: true}));
    assert.equal(reply.text, events.map((e) => `event: ${e.type}\ndata: ${JSON.stringify(e)}\n\n`).join(''));
    assert.equal(reply.ended, 'complete');
    near((await logLine(weir, reply)).cost_usd, COST);
    const read = client(weir).messages.stream(asked());
    const {content, usage} = await read.finalMessage();
    assert.equal(content[0].signature, 'sig-1');
    assert.equal(content[1].text, 'Nairobi');
    assert.equal(usage.output_tokens, MESSAGES_USAGE.output_tokens);
  });

  test('what no chat can say goes to such a target only', async (t) => {
    const plain = await upstreamOf(t, replies(jsonReply(chatReply())));
    const more = {...RICH, targets: [target(plain, {}, 'plain')]};
    const {weir, upstream} = await hostedWith(t, NATIVE, replies(jsonReply(message(THOUGHT))), more);
    const body = asked({messages: [{role: 'user', content: [PDF, {type: 'text', text: 'What is it?'}]}]});
    for (let i = 0; i < 4; ++i) assert.equal((await post(weir, body)).status, 200);
    assert.equal(plain.requests.length, 0);
    assert.deepEqual(jsonOf(upstream.requests[0]).messages, body.messages);
  });

  test('without such a target it is a 400 that names the field', async (t) => {
    const {weir} = await hostedWith(t, {}, replies(jsonReply(chatReply())), RICH);
    const reply = await post(weir, asked({messages: [{role: 'user', content: [PDF]}]}));
    assert.equal(reply.status, 400);
    assert.equal(reply.json.type, 'error');
    assert.match(reply.json.error.message, /document/);
  });

  for (const [name, fields] of Object.entries({
    'servers that the client names': {mcp_servers: [{type: 'url', url: 'http://127.0.0.2/'}]},
    'containers of others': {container: 'c1'},
    'files of others': {messages: [{role: 'user', content: [{type: 'document', source: {type: 'file', file_id: 'f1'}}]}]},
    'tools that act by themselves': {tools: [{type: 'web_fetch_20250910', name: 'web_fetch'}]},
  })) {
    test(`${name} are a 400, and nothing is sent`, async (t) => {
      const {weir, upstream} = await hostedWith(t, NATIVE, replies(jsonReply(message(THOUGHT))), RICH);
      const reply = await post(weir, asked(fields));
      assert.equal(reply.status, 400, reply.text);
      assert.equal(reply.json.error.type, 'invalid_request_error');
      assert.equal(upstream.requests.length, 0);
    });
  }

  test('versions that are no plain list are not passed on', async (t) => {
    const {weir, upstream} = await hostedWith(t, NATIVE, replies(jsonReply(message(THOUGHT))), RICH);
    await post(weir, asked(), {'anthropic-beta': 'a"b;c', 'anthropic-version': '2099-01-01'});
    await post(weir, asked(), {'anthropic-beta': 'x'.repeat(2000)});
    const [first, second] = upstream.requests;
    assert.equal(first.headers['anthropic-version'], '2099-01-01');
    for (const request of [first, second]) assert.ok(!('anthropic-beta' in request.headers));
    assert.equal(second.headers['anthropic-version'], '2023-06-01');
  });

  test('errors come as Anthropic has them, a credential of ours never', async (t) => {
    const cases = [
      [messagesError('invalid_request_error', 'max_tokens: too large', 400), 400, 'invalid_request_error', /too large/],
      [messagesError('authentication_error', 'invalid x-api-key sk-upstream-secret', 401), 502, 'api_error', /^(?!.*secret)/],
      [messagesError('overloaded_error', 'Overloaded', 529), 503, null, /./],
    ];
    for (const [answer, status, type, words] of cases) {
      const {weir} = await hostedWith(t, NATIVE, replies(answer), RICH);
      const reply = await post(weir, asked({thinking: {type: 'enabled', budget_tokens: 5}}));
      assert.equal(reply.json.type, 'error', reply.text);
      if (type) assert.equal(reply.json.error.type, type, reply.text);
      assert.match(reply.json.error.message, words);
      assert.ok(reply.status === status || reply.status === 529, `${reply.status} ${reply.text}`);
      assert.equal(reply.headers['request-id'], reply.headers['x-request-id']);
    }
  });

  test('a stream that is cut behind content ends with an error event of that API', async (t) => {
    const events = [messageStart, ...textBlock(0, 'Nai').slice(0, 2)];
    const cut = (request, socket) => {
      socket.write(namedEvents(events, {end: false}));
      setTimeout(() => socket.destroy(), 50);
    };
    const {weir} = await hostedWith(t, NATIVE, cut, RICH);
    const reply = await post(weir, asked({stream: true}));
    assert.equal(reply.ended, 'aborted');
    assert.match(reply.text, /\n\nevent: error\ndata: \{"type":"error","error":\{"type":"\w+"/);
    assert.ok(!reply.text.includes('message_stop'));
  });

  test('an error before content goes to another target, which may be one of the chat API', async (t) => {
    const plain = await upstreamOf(t, replies(jsonReply(chatReply('from the other'))));
    const more = {...RICH, targets: [target(plain, {}, 'plain')]};
    const failing = replies(namedEvents([messageStart, {type: 'error', error: {type: 'overloaded_error', message: 'Overloaded'}}]));
    const {weir} = await hostedWith(t, NATIVE, failing, more);
    for (let i = 0; i < 4; ++i) {
      const data = await client(weir).messages.create(asked());
      assert.equal(data.content[0].text, 'from the other');
    }
  });

  test('count_tokens goes to the target where nobody here can count', async (t) => {
    const {weir, upstream} = await hostedWith(t, NATIVE, replies(jsonReply({input_tokens: 42})), RICH);
    const {max_tokens: none, ...body} = asked({system: [CACHED]});
    assert.equal((await client(weir).messages.countTokens(body)).input_tokens, 42);
    const [request] = upstream.requests;
    assert.equal(request.path, '/v1/messages/count_tokens');
    assert.deepEqual(jsonOf(request), {...body, model: 'claude-up'});
  });
});
