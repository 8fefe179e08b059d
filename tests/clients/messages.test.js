// Anthropic's own client against weir, whose targets speak the chat API. And each event and error as that
// client's SDK reads it.
import assert from 'node:assert/strict';
import {describe, test} from 'node:test';

import Anthropic from '@anthropic-ai/sdk';

import {ask} from './support/client.js';
import {hostedWith, jsonOf} from './support/hosted.js';
import {PRICE, headers, limited} from './support/limits.js';
import {NAME, logLine} from './support/relay.js';
import {bearer} from './support/routing.js';
import {LAST_CHUNK, SSE_FIELDS, chatReply, chunk, delta, event, head, jsonReply, replies, sse, usageEvent} from './support/upstream.js';
import {MODEL, Weir, user} from './support/weir.js';

const RICH = {keys: {a: limited({usd_per_day: 1000})}, price: PRICE};
const USAGE = {prompt_tokens: 100, completion_tokens: 10, total_tokens: 110, prompt_tokens_details: {cached_tokens: 60}};
const COST = (40 * 2 + 60 * 0.2 + 10 * 8) / 1e6;
const near = (usd, wanted) => assert.ok(Math.abs(usd - wanted) < 1e-9, `${usd} instead of ${wanted}`);

const client = (weir, apiKey = 'a') => new Anthropic({baseURL: weir.url, apiKey, maxRetries: 0});
const asked = (fields = {}) => ({model: NAME, max_tokens: 99, messages: [user('ping')], ...fields});
const TOOLS = [{name: 'add', description: 'Adds', input_schema: {type: 'object', properties: {a: {type: 'integer'}}}}];
const call = (index, fields) => ({tool_calls: [{index, ...fields}]});

const STREAM = [
  delta({role: 'assistant', content: ''}),
  delta({reasoning_content: 'hm'}),
  delta({content: 'Nai'}),
  delta({content: 'robi'}),
  delta(call(0, {id: 'c1', type: 'function', function: {name: 'add', arguments: ''}})),
  delta(call(0, {function: {arguments: '{"a":'}})),
  delta(call(0, {function: {arguments: '1}'}})),
  delta({}, 'tool_calls'),
  {...usageEvent(100, 10), usage: USAGE},
  '[DONE]',
];

describe('POST /v1/messages', {timeout: 120_000}, () => {
  test('a whole answer with tools and thinking, at its price', async (t) => {
    const reply = chatReply('Nairobi', {usage: USAGE});
    const [choice] = reply.choices;
    choice.message.reasoning_content = 'hm';
    choice.message.tool_calls = [{id: 'c1', type: 'function', function: {name: 'add', arguments: '{"a":1}'}}];
    choice.finish_reason = 'tool_calls';
    const {weir, upstream} = await hostedWith(t, {}, replies(jsonReply(reply)), RICH);
    const {data, response} = await client(weir)
      .messages.create(
        asked({
          system: 'Be brief.',
          tools: TOOLS,
          messages: [
            user('ping'),
            {role: 'assistant', content: [{type: 'tool_use', id: 'c0', name: 'add', input: {a: 7}}]},
            {role: 'user', content: [{type: 'tool_result', tool_use_id: 'c0', content: '8'}]},
          ],
        }),
      )
      .withResponse();
    const said = jsonOf(upstream.requests[0]);
    assert.equal(upstream.requests[0].path, '/v1/chat/completions');
    assert.deepEqual(said.messages.map(({role}) => role), ['system', 'user', 'assistant', 'tool']);
    assert.equal(said.tools[0].function.name, 'add');
    assert.equal(data.type, 'message');
    assert.equal(data.model, NAME);
    assert.match(data.id, /^msg_/);
    assert.deepEqual(data.content.map(({type}) => type), ['thinking', 'text', 'tool_use']);
    assert.deepEqual(data.content[2].input, {a: 1});
    assert.equal(data.stop_reason, 'tool_use');
    assert.equal(data.usage.input_tokens, 40);
    assert.equal(data.usage.cache_read_input_tokens, 60);
    assert.equal(data.usage.output_tokens, 10);
    assert.equal(headers(response)['request-id'], headers(response)['x-request-id']);
    near((await logLine(weir, {headers: headers(response)})).cost_usd, COST);
  });

  test('a stream through the SDK: its events in order, blocks one behind the other, the same price', async (t) => {
    const {weir} = await hostedWith(t, {}, replies(sse(STREAM)), RICH);
    const stream = client(weir).messages.stream(asked({tools: TOOLS}));
    const types = [];
    stream.on('streamEvent', ({type}) => types.push(type));
    const final = await stream.finalMessage();
    assert.deepEqual(final.content.map(({type}) => type), ['thinking', 'text', 'tool_use']);
    assert.equal(final.content[1].text, 'Nairobi');
    assert.deepEqual(final.content[2].input, {a: 1});
    assert.equal(final.stop_reason, 'tool_use');
    assert.deepEqual([final.usage.input_tokens, final.usage.output_tokens], [40, 10]);
    assert.equal(types[0], 'message_start');
    assert.deepEqual(types.slice(-2), ['message_delta', 'message_stop']);
    const answer = await weir.post('/v1/messages', asked({stream: true}), bearer('a'));
    assert.match(headers(answer)['content-type'], /^text\/event-stream/);
    const text = await answer.text();
    for (const part of text.slice(0, -2).split('\n\n')) {
      const [, name, data] = /^event: (\w+)\ndata: (.*)$/.exec(part) ?? assert.fail(part);
      assert.equal(JSON.parse(data).type, name);
    }
    assert.doesNotMatch(text, /\[DONE\]/);
    near((await logLine(weir, {headers: headers(answer)})).cost_usd, COST);
  });

  test('either header carries the key', async (t) => {
    const {weir} = await hostedWith(t, {}, replies(jsonReply(chatReply())));
    for (const fields of [bearer('a'), {'x-api-key': 'a', 'anthropic-version': '2023-06-01'}]) {
      assert.equal((await weir.post('/v1/messages', asked(), fields)).status, 200);
    }
  });

  test('errors are the SDK’s own, with the request’s id', async (t) => {
    const keys = {a: 't', poor: limited({usd_per_day: 0.000001}), slow: limited({requests_per_min: 1})};
    let status = 200;
    const handler = (request, socket) =>
      void socket.write(status === 200 ? jsonReply(chatReply()) : jsonReply({error: {message: 'boom'}}, {status}));
    const {weir} = await hostedWith(t, {}, handler, {keys, price: PRICE});
    const refusal = async (make, kind, wanted) => {
      const error = await make().then(() => assert.fail('no error'), (e) => e);
      assert.ok(error instanceof kind, `${error.constructor.name} ${error.message}`);
      assert.equal(error.status, wanted);
      assert.equal(error.error.type, 'error');
      assert.equal(error.error.request_id, error.requestID);
      return error;
    };
    const sent = (fields, key = 'a') => () => client(weir, key).messages.create(asked(fields));
    await refusal(sent({}, 'nobody'), Anthropic.AuthenticationError, 401);
    await refusal(sent({model: 'junk'}), Anthropic.NotFoundError, 404);
    await refusal(sent({max_tokens: -1}), Anthropic.BadRequestError, 400);
    await refusal(sent({unknown_field: 1}), Anthropic.BadRequestError, 400);
    await sent({}, 'slow')();
    await refusal(sent({}, 'slow'), Anthropic.RateLimitError, 429);
    await refusal(sent({}, 'poor'), Anthropic.APIError, 400);
    const lost = await weir.post('/v1/messages/batches', {}, bearer('a'));
    assert.equal(lost.status, 404);
    const got = await fetch(`${weir.url}/v1/messages`, {headers: bearer('a')});
    assert.equal(got.status, 405);
    assert.equal((await got.json()).type, 'error');
    status = 500;
    assert.match((await refusal(sent({}), Anthropic.InternalServerError, 500)).message, /boom/);
  });

  test('a stream that breaks ends in an error event and no clean end', async (t) => {
    const begin = [Buffer.from(head(200, {...SSE_FIELDS, 'transfer-encoding': 'chunked'}))];
    for (const value of [STREAM[0], STREAM[2]]) begin.push(chunk(event(value)));
    const {weir} = await hostedWith(t, {}, (request, socket) => {
      socket.write(Buffer.concat(begin));
      setTimeout(() => socket.write(LAST_CHUNK), 50);
    });
    const stream = client(weir).messages.stream(asked());
    await assert.rejects(stream.finalMessage(), /target ended its stream/);
    const reply = await ask(weir, asked({stream: true}), {route: '/v1/messages', headers: bearer('a')});
    assert.equal(reply.ended, 'aborted');
    assert.match(reply.text, /event: error\ndata: \{"type":"error"/);
    assert.doesNotMatch(reply.text, /message_stop/);
  });
});

describe('POST /v1/messages/count_tokens', {timeout: 120_000}, () => {
  test('counts what the answer’s usage will say, as a request that uses no tokens', async (t) => {
    const weir = await Weir.start();
    t.after(() => weir.stop());
    const asking = {model: MODEL, system: 'Be brief.', messages: [user('What is the capital of Kenya?')], tools: TOOLS};
    const {input_tokens} = await client(weir).messages.countTokens(asking);
    const {usage} = await client(weir).messages.create({...asking, max_tokens: 3});
    assert.equal(input_tokens, usage.input_tokens);
    assert.ok(input_tokens > 20);
    const long = {...asking, messages: [user('one two three '.repeat(40_000))]};
    assert.ok((await client(weir).messages.countTokens(long)).input_tokens > 100_000);
  });

  test('without a tokenizer it is a 400; it counts as a request of the key and asks no target', async (t) => {
    const keys = {a: limited({requests_per_min: 2, tokens_per_min: 10})};
    const {weir, upstream} = await hostedWith(t, {}, replies(jsonReply(chatReply())), {keys, price: PRICE});
    const count = () => client(weir).messages.countTokens({model: NAME, messages: [user('ping')]});
    for (let i = 0; i < 2; ++i) await assert.rejects(count(), (e) => e.status === 400 && /no tokenizer/.test(e.message));
    await assert.rejects(count(), (e) => e instanceof Anthropic.RateLimitError);
    assert.equal(upstream.requests.length, 0);
  });
});
