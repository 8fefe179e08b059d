// Hosted APIs behind the chat API: what is said to them, what of their answers comes back, and what it costs.
// Cases carry the names of the faults that were reported of gateways.
import assert from 'node:assert/strict';
import {describe, test} from 'node:test';

import OpenAI from 'openai';

import {ask, splitEvents} from './support/client.js';
import {
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
import {PRICE, chat, headers, limited, refused} from './support/limits.js';
import {NAME, assertFailed, assertInterrupted, chatBody, logLine, streamBody, target, upstreamOf} from './support/relay.js';
import {bearer} from './support/routing.js';
import {chatReply, delta, jsonReply, replies, sse} from './support/upstream.js';
import {user} from './support/weir.js';

const RICH = {keys: {a: limited({usd_per_day: 1000})}, price: PRICE};
const ANTHROPIC = {dialect: 'anthropic', model: 'claude-up'};
const MOONSHOT = {dialect: 'moonshot', model: 'kimi-k3'};
const VLLM = {dialect: 'vllm'};

const client = (weir) => new OpenAI({baseURL: weir.base, apiKey: 'a', maxRetries: 0});
const costOf = async (weir, response) => (await logLine(weir, {headers: headers(response)})).cost_usd;
const near = (usd, wanted) => assert.ok(Math.abs(usd - wanted) < 1e-9, `${usd} instead of ${wanted}`);
const MESSAGES_COST = (100 * 2 + 1000 * 0.2 + 200 * 2.5 + 50 * 8) / 1e6;

const TOOL = {type: 'function', function: {name: 'add', parameters: {type: 'object', properties: {a: {type: 'integer'}}}}};
const TOOL_USE = {type: 'tool_use', id: 'toolu_1', name: 'add', input: {}};

describe('a target that speaks the messages API', {timeout: 120_000}, () => {
  test('a whole answer: what goes out, what comes back, and each token charged once', async (t) => {
    const content = [
      {type: 'thinking', thinking: 'hm', signature: 's'},
      {type: 'text', text: 'Nairobi'},
      {...TOOL_USE, input: {a: 1}},
    ];
    const handler = replies(jsonReply(message(content, {stop_reason: 'tool_use'})));
    const {weir, upstream} = await hostedWith(t, ANTHROPIC, handler, RICH);
    const {data, response} = await client(weir)
      .chat.completions.create({
        model: NAME,
        messages: [{role: 'system', content: 'Be brief.'}, user('ping')],
        max_tokens: 99,
        tools: [TOOL],
      })
      .withResponse();
    const [request] = upstream.requests;
    assert.equal(request.path, '/v1/messages');
    assert.equal(request.headers['x-api-key'], UPSTREAM_KEY);
    assert.equal(request.headers['anthropic-version'], '2023-06-01');
    assert.ok(!('authorization' in request.headers));
    const {model, max_tokens, system, messages, tools} = jsonOf(request);
    assert.deepEqual({model, max_tokens}, {model: 'claude-up', max_tokens: 99});
    assert.deepEqual(system, [{type: 'text', text: 'Be brief.'}]);
    assert.equal(messages[0].role, 'user');
    assert.equal(tools[0].name, 'add');
    const [choice] = data.choices;
    assert.equal(choice.message.content, 'Nairobi');
    assert.equal(choice.message.reasoning_content, 'hm');
    assert.deepEqual(JSON.parse(choice.message.tool_calls[0].function.arguments), {a: 1});
    assert.equal(choice.finish_reason, 'tool_calls');
    assert.equal(data.usage.prompt_tokens, 1300);
    assert.equal(data.usage.prompt_tokens_details.cached_tokens, 1000);
    near(await costOf(weir, response), MESSAGES_COST);
  });

  test('a stream: chunks as SDKs read them, usage only where it is wanted, and the same charge', async (t) => {
    const events = [
      messageStart,
      {type: 'ping'},
      ...block(0, {type: 'thinking', thinking: '', signature: ''}, {type: 'thinking_delta', thinking: 'hm'}),
      ...textBlock(1, 'Nai', 'robi'),
      ...block(2, TOOL_USE, {type: 'input_json_delta', partial_json: '{"a"'}, {type: 'input_json_delta', partial_json: ':1}'}),
      ...messageEnd('tool_use'),
    ];
    const {weir, upstream} = await hostedWith(t, ANTHROPIC, replies(namedEvents(events)), RICH);
    const wanted = {stream: true, stream_options: {include_usage: true}, max_tokens: 99};
    const {data, response} = await client(weir).chat.completions.create(chatBody(wanted)).withResponse();
    let text = '';
    let call = '';
    let usage;
    let finish;
    for await (const part of data) {
      usage = part.usage ?? usage;
      const [choice] = part.choices;
      text += choice?.delta.content ?? '';
      call += choice?.delta.tool_calls?.[0].function.arguments ?? '';
      finish = choice?.finish_reason ?? finish;
    }
    assert.deepEqual({text, call, finish}, {text: 'Nairobi', call: '{"a":1}', finish: 'tool_calls'});
    assert.equal(usage.prompt_tokens, 1300);
    assert.equal(usage.completion_tokens, 50);
    assert.equal(jsonOf(upstream.requests[0]).stream, true);
    near(await costOf(weir, response), MESSAGES_COST);
    const plain = await weir.post('/v1/chat/completions', streamBody({max_tokens: 99}), bearer('a'));
    const parts = splitEvents(Buffer.from(await plain.arrayBuffer())).events.map(String);
    assert.equal(parts.at(-1), 'data: [DONE]\n\n');
    assert.ok(parts.every((part) => !part.includes('prompt_tokens')));
    near(await costOf(weir, plain), MESSAGES_COST);
  });

  test('an answer without a bound on its length gets one: the operator’s, or what was set aside', async (t) => {
    const keys = {a: limited({usd_per_day: 1000}), b: 't'};
    const handler = replies(jsonReply(message([{type: 'text', text: 'x'}])));
    const more = {limits: {default_output_tokens: 77}};
    const {weir, upstream} = await hostedWith(t, {...ANTHROPIC, max_tokens: 55}, handler, {...RICH, keys, more});
    for (const [key, most] of [['a', 77], ['b', 55]]) {
      assert.equal((await chat(weir, key)).status, 200);
      assert.equal(jsonOf(upstream.requests.at(-1)).max_tokens, most);
    }
  });

  test('errors have the chat API’s shape, and nothing of our account is in them', async (t) => {
    const cases = [
      ['invalid_request_error', 'messages: roles must alternate', 400, 400, null, /alternate/],
      ['invalid_request_error', 'prompt is too long: 9 tokens > 8 maximum', 400, 400, 'context_length_exceeded', /too long/],
      ['authentication_error', 'invalid x-api-key sk-upstream', 401, 502, 'upstream_failed', /credential/],
      ['invalid_request_error', 'Your credit balance is too low, account 77', 400, 502, 'upstream_failed', /hosted/],
      ['rate_limit_error', 'organization 77 exceeds 50 requests', 429, 503, 'overloaded', /./],
      ['overloaded_error', 'Overloaded', 529, 503, 'overloaded', /./],
      ['api_error', 'boom', 500, 500, 'upstream_failed', /boom/],
    ];
    for (const [type, text, status, wanted, code, said] of cases) {
      const handler = replies(messagesError(type, text, status));
      const {weir} = await hostedWith(t, ANTHROPIC, handler);
      const reply = await ask(weir, chatBody(), {headers: bearer('a')});
      const error = assertFailed(reply, wanted, code, text);
      assert.match(error.message, said);
      assert.doesNotMatch(error.message, /77|sk-|balance/, text);
    }
  });

  test('A1: an error event before the first content is tried elsewhere', async (t) => {
    const failing = namedEvents([messageStart, {type: 'error', error: {type: 'overloaded_error', message: 'no'}}]);
    const other = await upstreamOf(t, replies(sse([delta({role: 'assistant', content: 'ok'}), delta({}, 'stop'), '[DONE]'])));
    const {weir} = await hostedWith(t, ANTHROPIC, replies(failing), {targets: [target(other, {}, 'r2')]});
    for (let i = 0; i < 4; ++i) {
      const reply = await ask(weir, streamBody(), {headers: bearer('a')});
      assert.equal(reply.status, 200, reply.text);
      assert.match(reply.text, /"content":"ok"/);
    }
  });

  test('A3: a stream that breaks, stops early or fails behind its first content ends in an error', async (t) => {
    const begin = [messageStart, ...textBlock(0, 'Nai').slice(0, 2)];
    const failed = [...begin, {type: 'error', error: {type: 'overloaded_error', message: 'no'}}];
    for (const [what, bytes, code] of [
      ['an error event', namedEvents(failed), 'overloaded'],
      ['an early end', namedEvents(begin), 'stream_interrupted'],
    ]) {
      const {weir} = await hostedWith(t, ANTHROPIC, replies(bytes));
      const reply = await ask(weir, streamBody(), {headers: bearer('a')});
      assertInterrupted(reply, (before) => assert.match(String(before), /"content":"Nai"/), code, what);
    }
  });

  test('what it cannot say is answered elsewhere, or is a 400 that says why', async (t) => {
    const handler = replies(jsonReply(message([{type: 'text', text: 'x'}])));
    const alone = await hostedWith(t, ANTHROPIC, handler);
    const error = await refused(await chat(alone.weir, 'a', {logprobs: true}), 400, 'unsupported_feature');
    assert.equal(error.param, 'logprobs');
    await refused(
      await alone.weir.post('/v1/completions', {model: NAME, prompt: 'x'}, bearer('a')), 400, 'unsupported_feature');
    assert.equal(alone.upstream.requests.length, 0);
    const other = await upstreamOf(t, replies(jsonReply(chatReply('ok'))));
    const more = {failover: {retry_percent: 100}};
    const both = await hostedWith(t, ANTHROPIC, handler, {targets: [target(other, {}, 'r2')], more});
    for (let i = 0; i < 8; ++i) assert.equal((await chat(both.weir, 'a', {logprobs: true})).status, 200);
    assert.equal(both.upstream.requests.length, 0);
    assert.equal(other.requests.length, 8);
  });

  test('fields of a dialect that a target does not have are faults', async (t) => {
    const start = (http) => hostedWith(t, http, replies(''));
    await assert.rejects(start({max_tokens: 5}), /http\.max_tokens: belongs to targets of dialect anthropic/);
    await assert.rejects(start({dialect: 'latin'}), /http\.dialect/);
    await assert.rejects(start({...ANTHROPIC, endpoints: ['responses']}), /'responses' cannot be said in dialect anthropic/);
    await assert.rejects(start({endpoints: ['chats']}), /'chats' is none of chat, completions/);
  });
});

describe('a target of Moonshot’s dialect', {timeout: 120_000}, () => {
  const usage = {prompt_tokens: 100, completion_tokens: 10, total_tokens: 110, cached_tokens: 60};
  const cost = (40 * 2 + 60 * 0.2 + 10 * 8) / 1e6;

  test('fixed sampling is dropped, effort mapped, reasoning goes both ways, cached tokens are priced', async (t) => {
    const reply = chatReply('Nairobi', {usage});
    reply.choices[0].message.reasoning_content = 'hm';
    const {weir, upstream} = await hostedWith(t, MOONSHOT, replies(jsonReply(reply)), RICH);
    const thought = {role: 'assistant', content: 'a', reasoning: 'because'};
    const {data, response} = await client(weir)
      .chat.completions.create({
        model: NAME,
        messages: [user('x'), thought, user('y')],
        temperature: 0.3,
        top_p: 0.5,
        presence_penalty: 1,
        max_tokens: 9,
        reasoning_effort: 'medium',
      })
      .withResponse();
    const said = jsonOf(upstream.requests[0]);
    assert.equal(upstream.requests[0].headers.authorization, `Bearer ${UPSTREAM_KEY}`);
    assert.deepEqual(Object.keys(said).sort(), ['max_completion_tokens', 'messages', 'model', 'reasoning_effort']);
    assert.equal(said.reasoning_effort, 'high');
    assert.equal(said.messages[1].reasoning_content, 'because');
    assert.equal(data.choices[0].message.reasoning, 'hm');
    assert.equal(data.usage.prompt_tokens_details.cached_tokens, 60);
    near(await costOf(weir, response), cost);
  });

  test('usage within the last choice of a stream is the usage of the stream', async (t) => {
    const last = delta({}, 'stop');
    last.choices[0].usage = usage;
    const events = [delta({role: 'assistant', content: ''}), delta({content: 'Nairobi'}), last, '[DONE]'];
    const {weir} = await hostedWith(t, MOONSHOT, replies(sse(events)), RICH);
    const asked = streamBody({stream_options: {include_usage: true}});
    const {data, response} = await client(weir).chat.completions.create(asked).withResponse();
    const parts = [];
    for await (const part of data) parts.push(part);
    assert.deepEqual(parts.at(-1).choices, []);
    assert.equal(parts.at(-1).usage.prompt_tokens, 100);
    near(await costOf(weir, response), cost);
  });

  test('a used-up quota is not tried again, and not the client’s to read', async (t) => {
    const error = {message: 'Your account org-77 is suspended, check your balance', type: 'exceeded_current_quota_error'};
    const {weir, upstream} = await hostedWith(t, MOONSHOT, replies(jsonReply({error}, {status: 429})));
    const answer = await chat(weir, 'a');
    assert.ok(answer.status === 502 || answer.status === 503, String(answer.status));
    assert.doesNotMatch(await answer.text(), /org-77|balance/);
    assert.equal(upstream.requests.length, 1);
  });
});

describe('a target of vLLM’s dialect', {timeout: 120_000}, () => {
  test('reasoning has both names for clients, and its own for the target', async (t) => {
    const reply = chatReply('Nairobi');
    reply.choices[0].message.reasoning = 'hm';
    const {weir, upstream} = await hostedWith(t, VLLM, replies(jsonReply(reply)));
    const thought = {role: 'assistant', content: 'a', reasoning_content: 'because'};
    const messages = [user('x'), thought, user('y')];
    const body = await (await chat(weir, 'a', {messages, temperature: 0.3})).json();
    assert.equal(body.choices[0].message.reasoning_content, 'hm');
    assert.deepEqual(jsonOf(upstream.requests[0]).messages[1], {role: 'assistant', content: 'a', reasoning: 'because'});
    assert.equal(jsonOf(upstream.requests[0]).temperature, 0.3);
    upstream.script(replies(sse([delta({role: 'assistant', reasoning: 'hm'}), delta({content: 'x'}), delta({}, 'stop'), '[DONE]'])));
    const stream = await client(weir).chat.completions.create(streamBody());
    let thinking = '';
    for await (const part of stream) thinking += part.choices[0]?.delta.reasoning_content ?? '';
    assert.equal(thinking, 'hm');
  });
});
