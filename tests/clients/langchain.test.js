// LangChain's chat model.
import assert from 'node:assert/strict';
import {after, before, describe, test} from 'node:test';

import {HumanMessage, ToolMessage} from '@langchain/core/messages';
import {ChatOpenAI} from '@langchain/openai';

import {MODEL, WEATHER, Weir} from './support/weir.js';

describe('@langchain/openai', () => {
  let weir, model;
  before(async () => {
    weir = await Weir.start();
    model = new ChatOpenAI({model: MODEL, apiKey: 'any', maxRetries: 0, configuration: {baseURL: weir.base}});
  });
  after(() => weir.stop());

  test('invoke', async () => {
    const answer = await model.invoke('What is the capital of Cuba?');
    assert.equal(answer.content, 'The capital of Cuba is Havana.');
    assert.equal(answer.response_metadata.finish_reason, 'stop');
    assert.ok(answer.usage_metadata.total_tokens > 0);
  });

  test('stream', async () => {
    let text = '',
      usage;
    for await (const chunk of await model.stream('What is the capital of Cuba?')) {
      text += chunk.content;
      usage = chunk.usage_metadata ?? usage;
    }
    assert.equal(text, 'The capital of Cuba is Havana.');
    assert.ok(usage.total_tokens > 0);
  });

  test('batch', async () => {
    const answers = await model.batch(['ping', 'thanks!', 'ping']);
    assert.deepEqual(
      answers.map((answer) => answer.content),
      ['pong', 'You are welcome!', 'pong'],
    );
    assert.equal(new Set(answers.map((answer) => answer.id)).size, 3);
  });

  for (const streamed of [false, true]) {
    test(`bindTools, ${streamed ? 'streamed' : 'whole'}`, async () => {
      const bound = model.bindTools([WEATHER]);
      const ask = async (messages) => {
        if (!streamed) return bound.invoke(messages);
        let whole;
        for await (const chunk of await bound.stream(messages)) whole = whole ? whole.concat(chunk) : chunk;
        return whole;
      };
      const question = new HumanMessage('What is the weather in Lima?');
      const call = await ask([question]);
      assert.equal(call.tool_calls.length, 1);
      assert.equal(call.tool_calls[0].name, 'get_weather');
      assert.deepEqual(call.tool_calls[0].args, {city: 'Lima'});
      const result = new ToolMessage({
        tool_call_id: call.tool_calls[0].id,
        content: '{"sky": "windy", "celsius": 18}',
      });
      assert.equal((await ask([question, call, result])).content, 'It is windy in Lima, 18 degrees.');
    });
  }
});
