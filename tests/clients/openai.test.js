// The official SDK against a running weir.
import assert from 'node:assert/strict';
import {after, before, describe, test} from 'node:test';

import OpenAI from 'openai';

import {ADD, MODEL, WEATHER, Weir, user} from './support/weir.js';

const CAPITAL = user('What is the capital of Kenya?');
const CAPITAL_ANSWER = 'The capital of Kenya is Nairobi.';

// Bans the tokens that end a turn, so that generation goes on to its limit.
const ENDLESS = {2049: -100, 2050: -100, 2057: -100};

describe('openai', () => {
  let weir, client;
  before(async () => {
    weir = await Weir.start();
    client = new OpenAI({baseURL: weir.base, apiKey: 'any', maxRetries: 0});
  });
  after(() => weir.stop());

  test('chat create', async () => {
    const answer = await client.chat.completions.create({model: MODEL, messages: [CAPITAL]});
    assert.equal(answer.choices[0].message.content, CAPITAL_ANSWER);
    assert.equal(answer.choices[0].finish_reason, 'stop');
    assert.equal(answer.model, MODEL);
    assert.ok(answer.usage.prompt_tokens > 0 && answer.usage.completion_tokens > 0);
    assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
    assert.match(answer._request_id, /.+/);
  });

  test('content as parts', async () => {
    const parts = [
      {type: 'text', text: 'What is the capital '},
      {type: 'text', text: 'of Kenya?'},
    ];
    const answer = await client.chat.completions.create({model: MODEL, messages: [user(parts)]});
    assert.equal(answer.choices[0].message.content, CAPITAL_ANSWER);
  });

  test('chat stream by iteration', async () => {
    const stream = await client.chat.completions.create({
      model: MODEL,
      messages: [CAPITAL],
      stream: true,
      stream_options: {include_usage: true},
    });
    let text = '',
      usage,
      finish,
      pieces = 0;
    for await (const chunk of stream) {
      if (chunk.choices[0]?.delta.content) ++pieces;
      text += chunk.choices[0]?.delta.content ?? '';
      finish ??= chunk.choices[0]?.finish_reason ?? undefined;
      if (chunk.usage) usage = chunk.usage;
    }
    assert.equal(text, CAPITAL_ANSWER);
    assert.equal(finish, 'stop');
    assert.ok(pieces > 1);
    const whole = await client.chat.completions.create({model: MODEL, messages: [CAPITAL]});
    assert.deepEqual(usage, whole.usage);
  });

  test('.stream() helper', async () => {
    const stream = client.chat.completions.stream({
      model: MODEL,
      messages: [CAPITAL],
      stream_options: {include_usage: true},
    });
    let deltas = '';
    stream.on('content', (delta) => {
      deltas += delta;
    });
    const answer = await stream.finalChatCompletion();
    assert.equal(deltas, CAPITAL_ANSWER);
    assert.equal(answer.choices[0].message.content, CAPITAL_ANSWER);
    assert.equal(answer.choices[0].message.role, 'assistant');
    assert.ok((await stream.totalUsage()).total_tokens > 0);
  });

  for (const streamed of [false, true]) {
    test(`tool round trip, ${streamed ? 'streamed' : 'whole'}`, async () => {
      const messages = [user('What is the weather in Rome?')];
      const ask = async () => {
        const request = {model: MODEL, messages, tools: [WEATHER, ADD]};
        const answer = streamed
          ? await client.chat.completions.stream(request).finalChatCompletion()
          : await client.chat.completions.create(request);
        return answer.choices[0];
      };
      const call = await ask();
      assert.equal(call.finish_reason, 'tool_calls');
      assert.equal(call.message.content ?? '', '');
      assert.equal(call.message.tool_calls.length, 1);
      assert.equal(call.message.tool_calls[0].function.name, 'get_weather');
      assert.deepEqual(JSON.parse(call.message.tool_calls[0].function.arguments), {city: 'Rome'});
      messages.push(call.message, {
        role: 'tool',
        tool_call_id: call.message.tool_calls[0].id,
        content: '{"sky": "sunny", "celsius": 21}',
      });
      const answer = await ask();
      assert.equal(answer.message.content, 'It is sunny in Rome, 21 degrees.');
      assert.equal(answer.finish_reason, 'stop');
    });
  }

  test('runTools drives the loop by itself', async () => {
    const runner = client.chat.completions.runTools({
      model: MODEL,
      messages: [user('What is the weather in Oslo?')],
      tools: [
        {
          type: 'function',
          function: {
            ...WEATHER.function,
            parse: JSON.parse,
            function: ({city}) => (city === 'Oslo' ? '{"sky": "rainy", "celsius": 4}' : 'unknown'),
          },
        },
      ],
    });
    assert.equal(await runner.finalContent(), 'It is rainy in Oslo, 4 degrees.');
  });

  test('abort in the middle of a stream frees the engine', async () => {
    const [generatedBefore] = await weir.metric(/^weir_engine_tokens_total\{.*kind="generated"/);
    const stream = await client.chat.completions.create({
      model: MODEL,
      messages: [user('Tell me a story about a fox.')],
      stream: true,
      logit_bias: ENDLESS,
      max_tokens: 8000,
    });
    let chunks = 0;
    for await (const chunk of stream) {
      if (chunk.choices[0].delta.content && ++chunks === 3) break;
    }
    stream.controller.abort();
    const running = () => weir.metric(/^weir_engine_sequences\{.*state="running"/);
    const deadline = Date.now() + 5000;
    while ((await running())[0] > 0 && Date.now() < deadline) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    assert.deepEqual(await running(), [0]);
    // Left alone, the sequence would have gone on to its 8,000 tokens.
    const [generated] = await weir.metric(/^weir_engine_tokens_total\{.*kind="generated"/);
    assert.ok(generated - generatedBefore < 7000, `${generated - generatedBefore} tokens generated`);
    const answer = await client.chat.completions.create({model: MODEL, messages: [CAPITAL]});
    assert.equal(answer.choices[0].message.content, CAPITAL_ANSWER);
  });

  test('models list and retrieve', async () => {
    const list = await client.models.list();
    assert.deepEqual(
      list.data.map((model) => model.id),
      [MODEL],
    );
    assert.equal((await client.models.retrieve(MODEL)).id, MODEL);
  });

  const prompt =
    '<|im_user|>user<|im_middle|>What is the capital of Kenya?<|im_end|>' +
    '<|im_assistant|>assistant<|im_middle|>';

  test('completions', async () => {
    const answer = await client.completions.create({model: MODEL, prompt, max_tokens: 40});
    assert.equal(answer.choices[0].text, CAPITAL_ANSWER);
    assert.equal(answer.choices[0].finish_reason, 'stop');
    const chat = await client.chat.completions.create({model: MODEL, messages: [CAPITAL]});
    assert.deepEqual(answer.usage, chat.usage);
  });

  test('completions stream', async () => {
    const stream = await client.completions.create({model: MODEL, prompt, max_tokens: 40, stream: true});
    let text = '',
      finish;
    for await (const chunk of stream) {
      text += chunk.choices[0].text;
      finish = chunk.choices[0].finish_reason;
    }
    assert.equal(text, CAPITAL_ANSWER);
    assert.equal(finish, 'stop');
  });

  test('completions of several prompts, and of token ids', async () => {
    const ids = [2051, 279, 2065, 773, 281, 341, 263, 1471, 63, 2050, 2052, 276, 2065];
    const one = await client.completions.create({model: MODEL, prompt: ids, max_tokens: 40});
    assert.equal(one.choices[0].text, 'The capital of Somalia is Mogadishu.');
    const two = await client.completions.create({
      model: MODEL,
      prompt: [prompt, prompt],
      max_tokens: 40,
      n: 2,
    });
    assert.deepEqual(
      two.choices.map((choice) => choice.index),
      [0, 1, 2, 3],
    );
    for (const choice of two.choices) assert.equal(choice.text, CAPITAL_ANSWER);
  });

  test('completions default to 16 tokens and can echo', async () => {
    const answer = await client.completions.create({
      model: MODEL,
      prompt: 'The capital',
      echo: true,
      logit_bias: ENDLESS,
    });
    assert.ok(answer.choices[0].text.startsWith('The capital'));
    assert.equal(answer.usage.completion_tokens, 16);
    assert.equal(answer.choices[0].finish_reason, 'length');
  });

  test('chat logprobs', async () => {
    const answer = await client.chat.completions.create({
      model: MODEL,
      messages: [CAPITAL],
      logprobs: true,
      top_logprobs: 3,
    });
    const {content} = answer.choices[0].logprobs;
    assert.equal(content.length, answer.usage.completion_tokens);
    assert.equal(Buffer.from(content.flatMap((token) => token.bytes)).toString(), CAPITAL_ANSWER);
    for (const token of content) {
      assert.equal(token.top_logprobs.length, 3);
      assert.ok(token.logprob <= 0);
      assert.equal(token.top_logprobs[0].token, token.token);
      assert.ok(token.top_logprobs[0].logprob >= token.top_logprobs[1].logprob);
    }
  });

  test('completions logprobs', async () => {
    const answer = await client.completions.create({model: MODEL, prompt, max_tokens: 5, logprobs: 2});
    const {tokens, token_logprobs, top_logprobs, text_offset} = answer.choices[0].logprobs;
    assert.equal(tokens.join(''), answer.choices[0].text);
    assert.equal(token_logprobs.length, 5);
    assert.ok(top_logprobs.every((top) => Object.keys(top).length >= 2));
    assert.deepEqual(
      text_offset,
      tokens.map((_, i) => tokens.slice(0, i).join('').length),
    );
  });

  test('n choices, the same when greedy and seeded otherwise', async () => {
    const greedy = await client.chat.completions.create({model: MODEL, messages: [CAPITAL], n: 2});
    assert.deepEqual(
      greedy.choices.map((choice) => choice.index),
      [0, 1],
    );
    for (const choice of greedy.choices) assert.equal(choice.message.content, CAPITAL_ANSWER);
    const sample = async () => {
      const answer = await client.chat.completions.create({
        model: MODEL,
        messages: [user('Tell me a story about a fox.')],
        n: 3,
        temperature: 1.5,
        seed: 5,
        max_tokens: 30,
      });
      return answer.choices.map((choice) => choice.message.content);
    };
    const first = await sample();
    assert.deepEqual(await sample(), first);
    assert.ok(new Set(first).size > 1);
  });

  test('stop strings', async () => {
    const answer = await client.chat.completions.create({
      model: MODEL,
      messages: [CAPITAL],
      stop: ['Nai', 'xyz'],
    });
    assert.equal(answer.choices[0].message.content, 'The capital of Kenya is ');
    assert.equal(answer.choices[0].finish_reason, 'stop');
    const stream = await client.chat.completions.create({
      model: MODEL,
      messages: [CAPITAL],
      stop: 'robi',
      stream: true,
    });
    let text = '';
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? '';
    assert.equal(text, 'The capital of Kenya is Nai');
  });

  test('max_tokens and max_completion_tokens end with length', async () => {
    for (const limit of [{max_tokens: 3}, {max_completion_tokens: 3}]) {
      const answer = await client.chat.completions.create({model: MODEL, messages: [CAPITAL], ...limit});
      assert.equal(answer.choices[0].finish_reason, 'length');
      assert.equal(answer.usage.completion_tokens, 3);
    }
  });

  test('requests at the same time do not mix', async () => {
    const cities = {
      Kenya: 'Nairobi',
      Italy: 'Rome',
      France: 'Paris',
      Spain: 'Madrid',
      Japan: 'Tokyo',
      Peru: 'Lima',
    };
    await Promise.all(
      Object.entries({...cities})
        .flatMap((entry) => [entry, entry, entry])
        .map(async ([country, city]) => {
          const answer = await client.chat.completions.create({
            model: MODEL,
            messages: [user(`What is the capital of ${country}?`)],
          });
          assert.equal(answer.choices[0].message.content, `The capital of ${country} is ${city}.`);
        }),
    );
  });
});
