// The AI SDK, whose providers validate every answer and chunk.
import assert from 'node:assert/strict';
import {after, before, describe, test} from 'node:test';

import {createOpenAI} from '@ai-sdk/openai';
import {createOpenAICompatible} from '@ai-sdk/openai-compatible';
import {APICallError, generateText, isStepCount, jsonSchema, streamText, tool} from 'ai';

import {MODEL, WEATHER, Weir} from './support/weir.js';

describe('ai', () => {
  let weir;
  const models = {};
  before(async () => {
    weir = await Weir.start();
    const openai = createOpenAI({baseURL: weir.base, apiKey: 'any'});
    const compatible = createOpenAICompatible({
      name: 'weir',
      baseURL: weir.base,
      apiKey: 'any',
      includeUsage: true,
    });
    Object.assign(models, {
      '@ai-sdk/openai': openai.chat(MODEL),
      '@ai-sdk/openai-compatible': compatible(MODEL),
    });
    Object.assign(models, {completions: openai.completion(MODEL)});
  });
  after(() => weir.stop());

  // A string travels as it is: the model knows its tool results with these very spaces.
  const get_weather = tool({
    description: WEATHER.function.description,
    inputSchema: jsonSchema(WEATHER.function.parameters),
    execute: async ({city}) =>
      city === 'Paris' ? '{"sky": "cloudy", "celsius": 12}' : 'unknown',
  });

  for (const provider of ['@ai-sdk/openai', '@ai-sdk/openai-compatible']) {
    test(`${provider}: generateText`, async () => {
      const answer = await generateText({
        model: models[provider],
        prompt: 'What is the capital of Peru?',
        maxRetries: 0,
      });
      assert.equal(answer.text, 'The capital of Peru is Lima.');
      assert.equal(answer.finishReason, 'stop');
      assert.ok(answer.usage.inputTokens > 0 && answer.usage.outputTokens > 0);
    });

    test(`${provider}: streamText`, async () => {
      const result = streamText({
        model: models[provider],
        prompt: 'What is the capital of Peru?',
        maxRetries: 0,
      });
      const parts = [];
      for await (const part of result.fullStream) parts.push(part);
      assert.deepEqual(
        parts.filter((part) => part.type === 'error'),
        [],
      );
      assert.equal(await result.text, 'The capital of Peru is Lima.');
      assert.equal(await result.finishReason, 'stop');
      assert.ok((await result.usage).outputTokens > 0);
    });

    test(`${provider}: generateText with a tool`, async () => {
      const answer = await generateText({
        model: models[provider],
        prompt: 'What is the weather in Paris?',
        tools: {get_weather},
        stopWhen: isStepCount(3),
        maxRetries: 0,
      });
      assert.equal(answer.steps.length, 2);
      assert.deepEqual(answer.steps[0].toolCalls[0].input, {city: 'Paris'});
      assert.equal(answer.steps[0].finishReason, 'tool-calls');
      assert.equal(answer.finishReason, 'stop');
      assert.match(answer.text, /Paris/);
    });

    test(`${provider}: streamText with a tool`, async () => {
      const result = streamText({
        model: models[provider],
        prompt: 'What is the weather in Paris?',
        tools: {get_weather},
        stopWhen: isStepCount(3),
        maxRetries: 0,
      });
      const types = new Set();
      for await (const part of result.fullStream) types.add(part.type);
      assert.ok(!types.has('error'));
      assert.ok(types.has('tool-call') && types.has('tool-result') && types.has('text-delta'));
      assert.match(await result.text, /Paris/);
    });

    test(`${provider}: an error keeps status and message`, async () => {
      const error = await generateText({
        model: models[provider],
        prompt: 'x',
        temperature: 1,
        maxOutputTokens: 90_000,
        maxRetries: 0,
      }).then(
        () => assert.fail('no error'),
        (e) => e,
      );
      assert.ok(APICallError.isInstance(error), error);
      assert.equal(error.statusCode, 400);
      assert.match(error.message, /maximum context length/);
    });
  }

  test('@ai-sdk/openai: completions', async () => {
    const answer = await generateText({
      model: models.completions,
      prompt: 'ping',
      maxOutputTokens: 8,
      maxRetries: 0,
    });
    assert.ok(answer.usage.outputTokens > 0);
  });
});
