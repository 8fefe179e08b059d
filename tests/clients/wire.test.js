// What Weir writes, byte for byte: every point at which a real client was seen to break on a server, and
// OpenAI's schemas.
import assert from 'node:assert/strict';
import {after, before, describe, test} from 'node:test';

import {assertSchema} from './support/schemas.js';
import {ADD, MODEL, WEATHER, Weir, readEvents, user} from './support/weir.js';

const QUESTION = [user('What is the capital of Kenya?')];
const TOOLS = {messages: [user('What is the weather in Rome?')], tools: [WEATHER, ADD]};
const PROMPT = '<|im_user|>user<|im_middle|>ping<|im_end|><|im_assistant|>assistant<|im_middle|>';

let weir;
before(async () => {
  weir = await Weir.start((config) => ({...config, limits: {body_bytes: 65536}}));
});
after(() => weir.stop());

const streamChat = async (fields) =>
  readEvents(await weir.post('/v1/chat/completions', {model: MODEL, stream: true, ...fields}));
const streamCompletion = async (fields) =>
  readEvents(await weir.post('/v1/completions', {model: MODEL, stream: true, ...fields}));
const completion = async (fields) => (await weir.post('/v1/completions', {model: MODEL, ...fields})).json();

// Schemas of a stream allow no null where clients expect one on the wire.
function withoutNulls(chunk) {
  const {usage, ...rest} = chunk;
  const choices = chunk.choices.map(({finish_reason, logprobs, ...choice}) => ({
    ...choice,
    finish_reason,
    ...(logprobs === null ? {} : {logprobs}),
  }));
  return usage === null || usage === undefined ? {...rest, choices} : {...rest, choices, usage};
}

const variants = {
  plain: {messages: QUESTION},
  'with usage': {messages: QUESTION, stream_options: {include_usage: true}},
  'with logprobs': {messages: QUESTION, logprobs: true, top_logprobs: 2},
  'two choices': {messages: QUESTION, n: 2},
  'cut by length': {messages: QUESTION, max_tokens: 2},
  'cut by a stop string': {messages: QUESTION, stop: ['Nairobi']},
  'a tool call': TOOLS,
};

describe('schemas', () => {
  for (const [name, fields] of Object.entries(variants)) {
    test(`chat answer: ${name}`, async () => {
      const {stream_options: _, ...whole} = fields;
      assertSchema('CreateChatCompletionResponse', await weir.chat(whole));
    });
    test(`chat chunks: ${name}`, async () => {
      for (const chunk of await streamChat(fields))
        assertSchema('CreateChatCompletionStreamResponse', withoutNulls(chunk));
    });
  }
  for (const [name, fields] of Object.entries({
    plain: {},
    logprobs: {logprobs: 2},
    several: {prompt: [PROMPT, PROMPT], n: 2},
  })) {
    test(`completion answer: ${name}`, async () => {
      assertSchema('CreateCompletionResponse', await completion({prompt: PROMPT, ...fields}));
    });
    test(`completion chunks: ${name}`, async () => {
      const chunks = await streamCompletion({
        prompt: PROMPT,
        stream_options: {include_usage: true},
        ...fields,
      });
      for (const chunk of chunks) {
        // The schema has no word for a choice that goes on.
        const choices = chunk.choices.map((choice) => ({
          ...choice,
          finish_reason: choice.finish_reason ?? 'stop',
        }));
        const {usage, ...rest} = chunk;
        assertSchema('CreateCompletionResponse', {...rest, choices, ...(usage ? {usage} : {})});
      }
    });
  }
  test('models', async () => {
    assertSchema('ListModelsResponse', await (await fetch(`${weir.base}/models`)).json());
    assertSchema('Model', await (await fetch(`${weir.base}/models/${MODEL}`)).json());
  });

  const errors = {
    'not JSON': [400, () => weir.post('/v1/chat/completions', '{')],
    'not an object': [400, () => weir.post('/v1/chat/completions', '[]')],
    'no body': [400, () => fetch(`${weir.base}/chat/completions`, {method: 'POST'})],
    'a wrong value': [
      400,
      () => weir.post('/v1/chat/completions', {model: MODEL, messages: QUESTION, top_p: 2}),
    ],
    'content type': [415, () => weir.post('/v1/chat/completions', '{}', {'content-type': 'text/plain'})],
    'unknown model': [404, () => weir.post('/v1/completions', {model: 'x', prompt: 'x'})],
    'unknown path': [404, () => fetch(`${weir.url}/v2/nothing`)],
    'outside the API': [404, () => fetch(`${weir.url}/`)],
    method: [405, () => fetch(`${weir.base}/chat/completions`)],
    'body too large': [
      413,
      () => weir.post('/v1/chat/completions', {model: MODEL, messages: [user('x'.repeat(70_000))]}),
    ],
  };
  for (const [name, [status, act]] of Object.entries(errors)) {
    test(`error: ${name}`, async () => {
      const response = await act();
      assert.equal(response.status, status);
      assert.match(response.headers.get('content-type'), /^application\/json/);
      assert.match(response.headers.get('x-request-id'), /.+/);
      const body = await response.json();
      assertSchema('ErrorResponse', body);
      assert.ok(body.error.message.length > 0);
      assert.ok(body.error.code === null || typeof body.error.code === 'string');
    });
  }
  test('error: method names those allowed', async () => {
    assert.equal((await fetch(`${weir.base}/chat/completions`)).headers.get('allow'), 'POST');
  });
});

describe('points where clients break', () => {
  test('the first delta of each choice has the role assistant, none has an empty one', async () => {
    const chunks = await streamChat({messages: QUESTION, n: 2});
    for (const index of [0, 1]) {
      const deltas = chunks
        .flatMap((chunk) => chunk.choices)
        .filter((choice) => choice.index === index)
        .map((choice) => choice.delta);
      assert.equal(deltas[0].role, 'assistant');
      assert.ok(deltas.slice(1).every((delta) => !('role' in delta) || delta.role === 'assistant'));
    }
  });

  for (const [name, fields] of Object.entries(variants)) {
    test(`each choice ends with exactly one finish_reason, at its end: ${name}`, async () => {
      const chunks = await streamChat(fields);
      for (let index = 0; index < (fields.n ?? 1); ++index) {
        const reasons = chunks
          .flatMap((chunk) => chunk.choices)
          .filter((choice) => choice.index === index)
          .map((choice) => choice.finish_reason);
        assert.ok(['stop', 'length', 'tool_calls'].includes(reasons.pop()));
        assert.ok(reasons.every((reason) => reason === null));
      }
    });
  }

  test('an answer has a choice, and every choice its index', async () => {
    for (const body of [
      await weir.chat({messages: QUESTION, n: 2}),
      await completion({prompt: PROMPT, n: 2}),
    ]) {
      assert.deepEqual(
        body.choices.map((choice) => choice.index),
        [0, 1],
      );
    }
    for (const chunk of [
      ...(await streamChat({messages: QUESTION})),
      ...(await streamCompletion({prompt: PROMPT})),
    ]) {
      assert.ok(chunk.choices.length > 0);
      for (const choice of chunk.choices) assert.equal(choice.index, 0);
    }
  });

  test('content is a string, in the answer and in deltas', async () => {
    assert.equal(typeof (await weir.chat({messages: QUESTION})).choices[0].message.content, 'string');
    for (const chunk of await streamChat({messages: QUESTION})) {
      const {content} = chunk.choices[0].delta;
      assert.ok(content === undefined || typeof content === 'string');
    }
  });

  test('content types and framing', async () => {
    const whole = await weir.post('/v1/chat/completions', {model: MODEL, messages: QUESTION});
    assert.match(whole.headers.get('content-type'), /^application\/json/);
    const stream = await weir.post('/v1/chat/completions', {model: MODEL, messages: QUESTION, stream: true});
    assert.equal(stream.headers.get('content-type'), 'text/event-stream; charset=utf-8');
    assert.equal(stream.headers.get('cache-control'), 'no-cache');
    await readEvents(stream);
  });

  test('tool call deltas: index in all, id, type and name in the first, arguments join to JSON', async () => {
    const chunks = await streamChat(TOOLS);
    const calls = chunks.flatMap((chunk) => chunk.choices[0].delta.tool_calls ?? []);
    assert.ok(calls.length > 1);
    for (const call of calls) {
      assert.equal(call.index, 0);
      assert.equal(typeof call.function.arguments, 'string');
    }
    const [first, ...rest] = calls;
    assert.match(first.id, /.+/);
    assert.equal(first.type, 'function');
    assert.equal(first.function.name, 'get_weather');
    for (const call of rest) assert.ok(!('id' in call) && !('name' in call.function));
    assert.deepEqual(JSON.parse(calls.map((call) => call.function.arguments).join('')), {city: 'Rome'});
    assert.equal(chunks.at(-1).choices[0].finish_reason, 'tool_calls');
  });

  test('tool calls of a whole answer: id, type, arguments as a string, content null', async () => {
    const {message, finish_reason: finish} = (await weir.chat(TOOLS)).choices[0];
    assert.equal(finish, 'tool_calls');
    assert.equal(message.content, null);
    const [call] = message.tool_calls;
    assert.match(call.id, /.+/);
    assert.equal(call.type, 'function');
    assert.equal(typeof call.function.arguments, 'string');
    assert.deepEqual(JSON.parse(call.function.arguments), {city: 'Rome'});
  });

  test('no markup in content', async () => {
    const chunks = await streamChat(TOOLS);
    assert.ok(!JSON.stringify(chunks).includes('<|'));
    assert.ok(!JSON.stringify(await weir.chat(TOOLS)).includes('<|'));
  });

  test('no tool_calls key without a call', async () => {
    assert.ok(
      !('tool_calls' in (await weir.chat({messages: QUESTION, tools: [WEATHER]})).choices[0].message),
    );
  });

  test('tool_choice none hides the tools', async () => {
    const {message} = (await weir.chat({...TOOLS, tool_choice: 'none', max_tokens: 40})).choices[0];
    assert.ok(!('tool_calls' in message));
  });

  test('no two answers share an id, all chunks of one do, and created and model too', async () => {
    const ids = new Set();
    for (let i = 0; i < 5; ++i) {
      ids.add((await weir.chat({messages: QUESTION})).id);
      ids.add((await completion({prompt: PROMPT})).id);
      const chunks = await streamChat({messages: QUESTION});
      for (const key of ['id', 'created', 'model', 'object'])
        assert.equal(new Set(chunks.map((chunk) => chunk[key])).size, 1);
      ids.add(chunks[0].id);
    }
    assert.equal(ids.size, 15);
  });

  test('usage: always in whole answers; in streams only when asked for, null before the last', async () => {
    const {usage} = await weir.chat({messages: QUESTION});
    assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
    for (const chunk of await streamChat({messages: QUESTION})) assert.ok(!('usage' in chunk));
    for (const chunks of [
      await streamChat({messages: QUESTION, stream_options: {include_usage: true}}),
      await streamCompletion({prompt: PROMPT, stream_options: {include_usage: true}}),
    ]) {
      const last = chunks.pop();
      assert.deepEqual(last.choices, []);
      assert.ok(last.usage.completion_tokens > 0);
      for (const chunk of chunks) assert.equal(chunk.usage, null);
    }
  });

  test('usage counts every choice', async () => {
    const one = (await weir.chat({messages: QUESTION})).usage;
    const two = (await weir.chat({messages: QUESTION, n: 2})).usage;
    assert.equal(two.prompt_tokens, one.prompt_tokens);
    assert.equal(two.completion_tokens, 2 * one.completion_tokens);
  });

  test('no reasoning_content of our own', async () => {
    assert.ok(!('reasoning_content' in (await weir.chat({messages: QUESTION})).choices[0].message));
  });

  test('whole and streamed answers say the same', async () => {
    for (const messages of [QUESTION, [user('Tell me a story about a fox.')], [user('Count from 3 to 9.')]]) {
      const whole = (await weir.chat({messages, max_tokens: 120})).choices[0];
      const chunks = await streamChat({messages, max_tokens: 120});
      assert.equal(
        chunks.map((chunk) => chunk.choices[0].delta.content ?? '').join(''),
        whole.message.content,
      );
      assert.equal(chunks.at(-1).choices[0].finish_reason, whole.finish_reason);
    }
  });

  test('unknown fields are no error', async () => {
    const fields = {
      store: true,
      metadata: {a: 'b'},
      reasoning_effort: 'low',
      parallel_tool_calls: true,
      user: 'x',
      service_tier: 'auto',
      prompt_cache_key: 'k',
      chat_template_kwargs: {},
      something_of_a_vendor: [1],
    };
    assert.equal((await weir.chat({messages: QUESTION, ...fields})).choices[0].finish_reason, 'stop');
  });

  test('null stands for absent', async () => {
    const fields = {
      temperature: null,
      top_p: null,
      n: null,
      stop: null,
      max_tokens: null,
      stream: null,
      logprobs: null,
      tools: null,
      tool_choice: null,
      response_format: null,
      seed: null,
      logit_bias: null,
      stream_options: null,
    };
    assert.equal((await weir.chat({messages: QUESTION, ...fields})).choices[0].finish_reason, 'stop');
  });

  test('every answer names its request, no two the same', async () => {
    const ids = new Set();
    for (const path of ['/v1/models', '/healthz', '/nothing', '/v1/models']) {
      ids.add((await fetch(weir.url + path)).headers.get('x-request-id'));
    }
    assert.equal(ids.size, 4);
    assert.ok(!ids.has(null));
  });
});
