// The responses API answered by the embedded engine: text, tools, schemas, streams, as the official SDK reads them.
import assert from 'node:assert/strict';
import {after, before, describe, test} from 'node:test';

import {Agent, OpenAIResponsesModel, Runner, setTracingDisabled, tool} from '@openai/agents';
import OpenAI from 'openai';
import {zodTextFormat} from 'openai/helpers/zod';
import {z} from 'zod';

import {ADD, MODEL, WEATHER, Weir, user} from './support/weir.js';

setTracingDisabled(true);

const QUESTION = 'What is the capital of Kenya?';
const ANSWER = 'The capital of Kenya is Nairobi.';
const flat = ({function: f}) => ({type: 'function', ...f, strict: false});

describe('responses of the embedded engine', {timeout: 180_000}, () => {
  let weir, client;
  before(async () => {
    weir = await Weir.start();
    client = new OpenAI({baseURL: weir.base, apiKey: 'any', maxRetries: 0});
  });
  after(() => weir.stop());

  const create = (fields) => client.responses.create({model: MODEL, input: QUESTION, ...fields});

  test('create', async () => {
    const answer = await create({});
    assert.equal(answer.output_text, ANSWER);
    assert.equal(answer.status, 'completed');
    assert.equal(answer.model, MODEL);
    assert.match(answer.id, /^resp_/);
    assert.equal(answer.output.length, 1);
    assert.equal(answer.output[0].type, 'message');
    const {usage} = answer;
    assert.ok(usage.input_tokens > 0 && usage.output_tokens > 0);
    assert.equal(usage.total_tokens, usage.input_tokens + usage.output_tokens);
    const chat = await client.chat.completions.create({model: MODEL, messages: [user(QUESTION)]});
    assert.equal(usage.input_tokens, chat.usage.prompt_tokens);
    assert.equal(usage.output_tokens, chat.usage.completion_tokens);
  });

  test('a call cut at any token is a whole answer without markup, in each API', async () => {
    const question = 'What is the weather in Nairobi?';
    const {function: f} = WEATHER;
    const post = async (path, body) => {
      const reply = await fetch(weir.base + path, {
        method: 'POST',
        headers: {'content-type': 'application/json'},
        body: JSON.stringify({model: MODEL, ...body}),
      });
      const text = await reply.text();
      assert.equal(reply.status, 200, text);
      assert.doesNotMatch(text, /<\|/);
      assert.doesNotMatch(text, /_begin|_end\|/);
      return text;
    };
    let whole = 0;
    for (let tokens = 1; tokens <= 24; ++tokens) {
      for (const stream of [false, true]) {
        const messages = [user(question)];
        await post('/chat/completions', {messages, tools: [WEATHER], max_tokens: tokens, stream});
        await post('/responses', {input: question, tools: [flat(WEATHER)], max_output_tokens: tokens, stream});
        const tools = [{name: f.name, input_schema: f.parameters}];
        const text = await post('/messages', {messages, tools, max_tokens: tokens, stream});
        if (stream) continue;
        const answer = JSON.parse(text);
        if (answer.content.some(({type}) => type === 'tool_use')) ++whole;
        else assert.equal(answer.stop_reason, 'max_tokens');
      }
    }
    assert.ok(whole > 0, 'no call was ever whole');
  });

  test('items, instructions and earlier turns', async () => {
    const turns = [
      {role: 'user', content: [{type: 'input_text', text: QUESTION}]},
      {type: 'message', role: 'assistant', content: [{type: 'output_text', text: ANSWER}]},
      {role: 'user', content: 'What is the capital of Italy?'},
    ];
    const answer = await create({input: turns, temperature: 0});
    const chat = await client.chat.completions.create({
      model: MODEL,
      messages: [user(QUESTION), {role: 'assistant', content: ANSWER}, user('What is the capital of Italy?')],
    });
    assert.equal(answer.output_text, chat.choices[0].message.content);
    const told = await create({instructions: 'Be brief.'});
    assert.equal(told.instructions, 'Be brief.');
  });

  test('stream: events in their order, the same answer', async () => {
    const stream = await create({stream: true});
    const types = [];
    let text = '',
      last = -1,
      final;
    for await (const event of stream) {
      assert.equal(event.sequence_number, last + 1);
      last = event.sequence_number;
      types.push(event.type);
      if (event.type === 'response.output_text.delta') text += event.delta;
      if (event.type === 'response.completed') final = event.response;
    }
    assert.equal(text, ANSWER);
    assert.equal(final.output[0].content[0].text, ANSWER);
    assert.deepEqual(
      types.filter((type, i) => type !== types[i - 1]),
      [
        'response.created',
        'response.in_progress',
        'response.output_item.added',
        'response.content_part.added',
        'response.output_text.delta',
        'response.output_text.done',
        'response.content_part.done',
        'response.output_item.done',
        'response.completed',
      ],
    );
    const whole = await create({});
    assert.deepEqual(final.usage, whole.usage);
  });

  test('.stream() helper', async () => {
    const stream = client.responses.stream({model: MODEL, input: QUESTION});
    const answer = await stream.finalResponse();
    assert.equal(answer.output_text, ANSWER);
  });

  test('a call, and its result', async () => {
    for (const stream of [false, true]) {
      const request = {
        model: MODEL,
        input: [{role: 'user', content: 'How is the weather in Nairobi?'}],
        tools: [flat(ADD), flat(WEATHER)],
        tool_choice: {type: 'function', name: 'get_weather'},
      };
      const answer = stream
        ? await client.responses.stream(request).finalResponse()
        : await client.responses.create(request);
      const call = answer.output.find((item) => item.type === 'function_call');
      assert.equal(call.name, 'get_weather');
      assert.equal(typeof JSON.parse(call.arguments).city, 'string');
      const next = await create({
        input: [...request.input, call, {type: 'function_call_output', call_id: call.call_id, output: 'sunny, 22 C'}],
        tools: request.tools,
      });
      assert.equal(next.status, 'completed');
      assert.ok(next.output_text.length > 0);
    }
  });

  test('a schema', async () => {
    const Person = z.object({name: z.string().max(10), age: z.int().min(0).max(99)});
    const answer = await client.responses.parse({
      model: MODEL,
      input: QUESTION,
      text: {format: zodTextFormat(Person, 'person')},
      temperature: 1,
    });
    assert.ok(Person.safeParse(answer.output_parsed).success);
  });

  test('cut by max_output_tokens', async () => {
    for (const stream of [false, true]) {
      const request = {model: MODEL, input: QUESTION, max_output_tokens: 3};
      const answer = stream
        ? await client.responses.stream(request).finalResponse()
        : await client.responses.create(request);
      assert.equal(answer.status, 'incomplete');
      assert.equal(answer.incomplete_details.reason, 'max_output_tokens');
      assert.equal(answer.usage.output_tokens, 3);
    }
  });

  test('logprobs', async () => {
    const answer = await create({include: ['message.output_text.logprobs'], top_logprobs: 2});
    const {logprobs} = answer.output[0].content[0];
    assert.equal(logprobs.length, answer.usage.output_tokens);
    assert.equal(logprobs[0].top_logprobs.length, 2);
  });

  const refused = {
    'no input': [{input: undefined}, 'input'],
    'an image': [{input: [{role: 'user', content: [{type: 'input_image', image_url: 'data:,'}]}]}],
    'a schema': [
      {text: {format: {type: 'json_schema', name: 'x', schema: {type: 'array', contains: {}}}}},
      'text.format',
    ],
    'a choice': [{tool_choice: 'required'}, 'tool_choice'],
    'earlier answers': [{previous_response_id: 'resp_1'}, 'previous_response_id'],
    context: [{input: 'a b c '.repeat(5000)}, 'input'],
  };
  for (const [name, [fields, param]] of Object.entries(refused)) {
    test(`refused: ${name}`, async () => {
      const error = await create(fields).catch((e) => e);
      assert.ok(error instanceof OpenAI.BadRequestError, `${error}`);
      if (param) assert.equal(error.param, param);
    });
  }

  test('@openai/agents calls a tool and goes on', async () => {
    const seen = [];
    const add = tool({
      name: 'add',
      description: ADD.function.description,
      parameters: z.object({a: z.int(), b: z.int()}),
      execute: ({a, b}) => {
        seen.push([a, b]);
        return String(a + b);
      },
    });
    const agent = new Agent({
      name: 'adder',
      model: new OpenAIResponsesModel(client, MODEL),
      tools: [add],
      modelSettings: {toolChoice: 'required'},
    });
    const result = await new Runner().run(agent, 'What is 3 plus 4?');
    assert.ok(seen.length >= 1);
    assert.equal(typeof result.finalOutput, 'string');
  });
});
