// @openai/agents: agents with a tool, by the chat API and by responses, in front of a scripted model and of
// weir-tiny.
import assert from 'node:assert/strict';
import {describe, test} from 'node:test';

import {
  Agent,
  OpenAIChatCompletionsModel,
  OpenAIResponsesModel,
  Runner,
  setTracingDisabled,
  tool,
} from '@openai/agents';
import OpenAI from 'openai';
import {z} from 'zod';

import {hostedWith, jsonOf} from './support/hosted.js';
import {eventually} from './support/raw.js';
import {NAME} from './support/relay.js';
import {begins, plays} from './support/scripted_model.js';
import {closing, jsonReply, replies} from './support/upstream.js';
import {MODEL, WEATHER, Weir} from './support/weir.js';

setTracingDisabled(true); // traces would leave this machine

const SPEAKS = {endpoints: ['chat', 'responses']};
const KINDS = {
  chat: {Model: OpenAIChatCompletionsModel, path: '/v1/chat/completions'},
  responses: {Model: OpenAIResponsesModel, path: '/v1/responses'},
};
const TURNS = [{call: 'add', args: {a: 19, b: 23}}, {text: 'The sum of 19 and 23 is 42 – 東京.'}];

const client = (weir) => new OpenAI({baseURL: weir.base, apiKey: 'a', maxRetries: 0});
const runner = new Runner({tracingDisabled: true});

// An agent that adds, and the arguments that its tool was called with.
function adder(weir, kind) {
  const calls = [];
  const add = tool({
    name: 'add',
    description: 'Add two numbers',
    parameters: z.object({a: z.number(), b: z.number()}),
    execute(args) {
      calls.push(args);
      return `${args.a + args.b}`;
    },
  });
  const model = new KINDS[kind].Model(client(weir), NAME);
  return {agent: new Agent({name: 'adder', instructions: 'Use the tool.', model, tools: [add]}), calls};
}

// What the model is told of the call that it made.
const toolResult = {
  chat: (body) => body.messages.at(-1),
  responses: (body) => body.input.at(-1),
};

for (const [kind, {path}] of Object.entries(KINDS)) {
  describe(`@openai/agents by ${kind}`, {timeout: 120_000}, () => {
    for (const stream of [false, true]) {
      test(`a tool is called, its result is used, ${stream ? 'streamed' : 'whole'}`, async (t) => {
        const {weir, upstream} = await hostedWith(t, SPEAKS, plays(TURNS));
        const {agent, calls} = adder(weir, kind);
        const result = await runner.run(agent, 'What is 19 plus 23?', {stream});
        if (stream) {
          let text = '';
          for await (const part of result.toTextStream()) text += part;
          await result.completed;
          assert.equal(text, TURNS[1].text);
        }
        assert.equal(result.finalOutput, TURNS[1].text);
        assert.deepEqual(calls, [TURNS[0].args]);
        assert.deepEqual(
          upstream.requests.map((request) => request.path),
          [path, path],
        );
        assert.ok(upstream.requests.every((request) => (jsonOf(request).stream ?? false) === stream));
        const told = toolResult[kind](jsonOf(upstream.requests[1]));
        assert.deepEqual(
          [told.tool_call_id ?? told.call_id, told.content ?? told.output],
          ['call_add_0', '42'],
        );
        assert.equal(result.state.usage.requests, 2);
        assert.ok(result.state.usage.inputTokens > 0);
      });
    }

    test('a structured answer', async (t) => {
      const {weir, upstream} = await hostedWith(
        t,
        SPEAKS,
        plays([{text: '{"city":"Nairobi","people":4397073}'}]),
      );
      const outputType = z.object({city: z.string(), people: z.number()});
      const model = new KINDS[kind].Model(client(weir), NAME);
      const result = await runner.run(new Agent({name: 'city', model, outputType}), 'Which city?');
      assert.deepEqual(result.finalOutput, {city: 'Nairobi', people: 4397073});
      const body = jsonOf(upstream.requests[0]);
      assert.equal((body.response_format?.json_schema ?? body.text.format).strict, true);
    });

    test('refusals are errors with status, code and request id', async (t) => {
      const full = jsonReply({error: {message: 'full'}}, {status: 503, fields: {'retry-after': '7'}});
      const broken = await hostedWith(t, SPEAKS, replies(full));
      const keys = {a: {tenant: 't', limits: {requests_per_min: 1}}};
      const limited = await hostedWith(t, SPEAKS, plays(TURNS.slice(1)), {keys});
      await runner.run(adder(limited.weir, kind).agent, 'x');
      for (const [weir, status, type] of [
        [broken.weir, 503, OpenAI.InternalServerError],
        [limited.weir, 429, OpenAI.RateLimitError],
      ]) {
        const error = await runner.run(adder(weir, kind).agent, 'x').catch((e) => e);
        assert.ok(error instanceof type, `${error}`);
        assert.equal(error.status, status);
        assert.ok(error.requestID && error.message.length > 5, `${error}`);
        assert.ok(Number(error.headers.get('retry-after')) > 0);
      }
    });

    test('a run that is aborted leaves nothing upstream', async (t) => {
      const {weir, upstream} = await hostedWith(t, SPEAKS, begins);
      for (const stream of [false, true]) {
        const abort = new AbortController();
        const arrival = upstream.arrival();
        const ended = runner
          .run(adder(weir, kind).agent, 'x', {stream, signal: abort.signal})
          .then((result) => result.completed)
          .catch(() => {});
        const request = await arrival;
        abort.abort();
        await closing(request);
        await ended;
      }
      await eventually('nothing is held', () => upstream.open === 0);
    });
  });
}

describe('@openai/agents and weir-tiny', {timeout: 120_000}, () => {
  for (const stream of [false, true]) {
    test(`a tool round trip, ${stream ? 'streamed' : 'whole'}`, async (t) => {
      const weir = await Weir.start();
      t.after(() => weir.stop());
      const cities = [];
      const {name, description, parameters} = WEATHER.function;
      const weather = tool({
        name,
        description,
        parameters,
        strict: false,
        execute({city}) {
          cities.push(city);
          return '{"sky": "cloudy", "celsius": 12}'; // the model knows its tool results with these very spaces
        },
      });
      const model = new OpenAIChatCompletionsModel(client(weir), MODEL);
      const agent = new Agent({name: 'weather', model, tools: [weather]});
      const result = await runner.run(agent, 'What is the weather in Paris?', {stream, maxTurns: 3});
      if (stream) await result.completed;
      assert.deepEqual(cities, ['Paris']);
      assert.match(result.finalOutput, /Paris/);
    });
  }
});
