// Answers that are bound to a form by the embedded engine: JSON schemas, forced calls, whatever the model would
// rather say.
import assert from 'node:assert/strict';
import {after, before, describe, test} from 'node:test';

import Ajv from 'ajv/dist/2020.js';
import OpenAI from 'openai';
import {zodFunction, zodResponseFormat} from 'openai/helpers/zod';
import {z} from 'zod';

import {ADD, MODEL, WEATHER, Weir, user} from './support/weir.js';

const CAPITAL = user('What is the capital of Kenya?');
const PERSON = user('Give me name, city and age as JSON: Mary lives in Rome and is 34 years old.');

const strict = (schema) => ({
  type: 'json_schema',
  json_schema: {name: 'answer', strict: true, schema},
});

// A schema, and how many tokens its longest answer may take.
const SCHEMAS = {
  person: {
    type: 'object',
    properties: {
      name: {type: 'string', maxLength: 20},
      age: {type: 'integer', minimum: 0, maximum: 150},
      tags: {type: 'array', items: {enum: ['a', 'b', 'c']}, minItems: 1, maxItems: 3},
    },
    required: ['name', 'age', 'tags'],
    additionalProperties: false,
  },
  'any of': {anyOf: [{type: 'integer', maximum: -5}, {type: 'string', pattern: '^[A-Z]{3}-\\d{2}$'}]},
  nullable: {
    type: 'object',
    properties: {a: {type: ['string', 'null'], maxLength: 5}, b: {const: 'fixed'}},
    required: ['a', 'b'],
    additionalProperties: false,
  },
  recursive: {
    $ref: '#/$defs/node',
    $defs: {
      node: {
        type: 'object',
        properties: {
          value: {type: 'boolean'},
          next: {anyOf: [{type: 'null'}, {type: 'array', items: {type: 'null'}, maxItems: 2}, {$ref: '#/$defs/leaf'}]},
        },
        required: ['value', 'next'],
        additionalProperties: false,
      },
      leaf: {type: 'object', properties: {}, additionalProperties: false},
    },
  },
  tuple: {
    type: 'array',
    prefixItems: [{type: 'number', minimum: 0.5, exclusiveMaximum: 2}, {type: 'string', minLength: 1, maxLength: 4}],
    items: false,
    minItems: 2,
  },
};

describe('structured answers', {timeout: 300_000}, () => {
  let weir, client;
  before(async () => {
    weir = await Weir.start();
    client = new OpenAI({baseURL: weir.base, apiKey: 'any', maxRetries: 0});
  });
  after(() => weir.stop());

  const chat = (fields) => client.chat.completions.create({model: MODEL, messages: [CAPITAL], ...fields});
  const ajv = new Ajv();

  for (const [name, schema] of Object.entries(SCHEMAS)) {
    test(`${name}: valid at every temperature`, async () => {
      const valid = ajv.compile(schema);
      for (const temperature of [0, 0.7, 1.4, 2]) {
        const answer = await chat({response_format: strict(schema), temperature, n: 4, seed: 7, max_tokens: 400});
        for (const choice of answer.choices) {
          assert.equal(choice.finish_reason, 'stop', choice.message.content);
          assert.ok(valid(JSON.parse(choice.message.content)), choice.message.content);
        }
      }
    });
  }

  test('a seed gives the same answer again', async () => {
    const sample = async () =>
      (await chat({response_format: strict(SCHEMAS.person), temperature: 1.5, seed: 3})).choices[0].message.content;
    assert.equal(await sample(), await sample());
  });

  test('what the model says by itself stays as it is', async () => {
    const free = await chat({messages: [PERSON]});
    const bound = await chat({messages: [PERSON], response_format: {type: 'json_object'}});
    const text = free.choices[0].message.content;
    if (text.startsWith('{')) assert.equal(bound.choices[0].message.content, text);
    assert.equal(typeof JSON.parse(bound.choices[0].message.content), 'object');
  });

  test('a stream, with usage and logprobs of the whole distribution', async () => {
    const stream = await chat({
      response_format: strict(SCHEMAS.person),
      stream: true,
      stream_options: {include_usage: true},
      logprobs: true,
      top_logprobs: 20,
    });
    let text = '',
      finish,
      usage,
      tokens = 0;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? '';
      finish ??= chunk.choices[0]?.finish_reason ?? undefined;
      usage ??= chunk.usage ?? undefined;
      for (const token of chunk.choices[0]?.logprobs?.content ?? []) {
        ++tokens;
        assert.equal(token.top_logprobs.length, 20);
        assert.ok(token.logprob <= 0);
      }
    }
    assert.equal(finish, 'stop');
    assert.ok(ajv.validate(SCHEMAS.person, JSON.parse(text)));
    assert.equal(usage.completion_tokens, tokens);
  });

  test('cut by max_tokens: length, and no promise', async () => {
    const {choices} = await chat({response_format: strict(SCHEMAS.person), max_tokens: 3});
    assert.equal(choices[0].finish_reason, 'length');
    assert.throws(() => JSON.parse(choices[0].message.content));
  });

  test('zod: parse() of an answer', async () => {
    const Person = z.object({
      name: z.string().max(12),
      age: z.int().min(0).max(150),
      pet: z.enum(['cat', 'dog']).nullable(),
      points: z.array(z.object({x: z.number().min(0).max(9), kind: z.literal('p')})).max(2),
    });
    const answer = await client.chat.completions.parse({
      model: MODEL,
      messages: [CAPITAL],
      response_format: zodResponseFormat(Person, 'person'),
      temperature: 1,
      seed: 1,
    });
    assert.ok(Person.safeParse(answer.choices[0].message.parsed).success);
  });

  test('tool_choice required', async () => {
    for (const stream of [false, true]) {
      const request = {model: MODEL, messages: [user('Hello!')], tools: [ADD, WEATHER], tool_choice: 'required'};
      const run = client.chat.completions.stream({...request, temperature: 1, seed: 2});
      const answer = stream ? await run.finalChatCompletion() : await client.chat.completions.create(request);
      const {message, finish_reason} = answer.choices[0];
      assert.equal(finish_reason, 'tool_calls');
      assert.ok(message.tool_calls.length >= 1);
      for (const call of message.tool_calls) {
        const tool = [ADD, WEATHER].find((t) => t.function.name === call.function.name);
        assert.ok(ajv.validate(tool.function.parameters, JSON.parse(call.function.arguments)));
      }
    }
  });

  test('tool_choice names a function', async () => {
    for (const tool of [ADD, WEATHER]) {
      const {name} = tool.function;
      const answer = await chat({
        tools: [ADD, WEATHER],
        tool_choice: {type: 'function', function: {name}},
        parallel_tool_calls: false,
      });
      assert.equal(answer.choices[0].finish_reason, 'tool_calls');
      const calls = answer.choices[0].message.tool_calls;
      assert.deepEqual(calls.map((call) => call.function.name), [name]);
      assert.ok(ajv.validate(tool.function.parameters, JSON.parse(calls[0].function.arguments)));
    }
  });

  test('allowed_tools narrows the choice', async () => {
    const answer = await chat({
      messages: [user('What is 3 plus 4?')],
      tools: [ADD, WEATHER],
      tool_choice: {
        type: 'allowed_tools',
        allowed_tools: {mode: 'required', tools: [{type: 'function', function: {name: 'get_weather'}}]},
      },
    });
    for (const call of answer.choices[0].message.tool_calls) assert.equal(call.function.name, 'get_weather');
  });

  test('auto with a strict function: text stays text, calls keep to the schema', async () => {
    const Add = z.object({a: z.int(), b: z.int()});
    const tool = zodFunction({name: 'add', parameters: Add});
    tool.function.description = ADD.function.description;
    for (const question of ['Hello!', 'What is 3 plus 4?', CAPITAL.content]) {
      const {finish_reason, message} = (await chat({messages: [user(question)], tools: [tool], temperature: 1}))
        .choices[0];
      if (finish_reason === 'stop') assert.ok(message.content.length > 0);
      else for (const call of message.tool_calls) assert.ok(Add.safeParse(JSON.parse(call.function.arguments)).success);
    }
    const answer = await client.chat.completions.parse({
      model: MODEL,
      messages: [user('Hello!')],
      tools: [tool],
      tool_choice: 'required',
    });
    assert.ok(Add.safeParse(answer.choices[0].message.tool_calls[0].function.parsed_arguments).success);
  });

  const refused = {
    'a keyword that is not supported': [
      {response_format: strict({type: 'object', properties: {x: {not: {}}}})},
      'response_format',
      /'answer'.*#\/properties\/x.*'not'/,
    ],
    'a schema without values': [{response_format: strict({type: 'integer', minimum: 2, maximum: 1})}, 'response_format', /no value/],
    'a schema without a name': [
      {response_format: {type: 'json_schema', json_schema: {schema: {}}}},
      'response_format.json_schema.name',
      /name/,
    ],
    'a strict function': [
      {tools: [ADD, {type: 'function', function: {name: 'f', strict: true, parameters: {contains: {}}}}]},
      'tools[1].function.parameters',
      /'f'.*'contains'/,
    ],
    'a function that is not declared': [
      {tools: [ADD], tool_choice: {type: 'function', function: {name: 'mul'}}},
      'tool_choice',
      /mul/,
    ],
    'required without tools': [{tool_choice: 'required'}, 'tool_choice', /tools/],
    'top_logprobs': [{logprobs: true, top_logprobs: 21}, 'top_logprobs', /20/],
    'logit_bias': [{logit_bias: {5: 101}}, 'logit_bias', /100/],
  };
  for (const [name, [fields, param, message]] of Object.entries(refused)) {
    test(`refused: ${name}`, async () => {
      const error = await chat(fields).catch((e) => e);
      assert.ok(error instanceof OpenAI.BadRequestError, `${error}`);
      assert.equal(error.param, param);
      assert.match(error.message, message);
    });
  }

  test('a function whose schema cannot be kept, without strict: any object', async () => {
    const tool = {type: 'function', function: {name: 'f', parameters: {type: 'object', not: {}}}};
    const answer = await chat({tools: [tool], tool_choice: 'required', max_tokens: 60, temperature: 0.5});
    assert.equal(answer.choices[0].message.tool_calls[0].function.name, 'f');
  });

  test('logit_bias decides within the form', async () => {
    const schema = {enum: ['cat', 'dog']};
    const spelled = async (fields) =>
      (await chat({response_format: strict(schema), ...fields})).choices[0].message.content;
    const first = await spelled({});
    const other = {'"cat"': '"dog"', '"dog"': '"cat"'}[first];
    const {tokens} = await (await weir.post('/tokenize', {model: MODEL, prompt: first})).json();
    assert.equal(await spelled({logit_bias: Object.fromEntries(tokens.map((id) => [id, -100]))}), other);
  });

  test('a stop string over several tokens cuts the form, as the client asked', async () => {
    const schema = {const: ['alpha', 'beta', 'gamma']};
    const fields = {response_format: strict(schema), stop: ['pha","be', 'x']};
    const {message, finish_reason} = (await chat(fields)).choices[0];
    assert.deepEqual([message.content, finish_reason], ['["al', 'stop']);
    let text = '';
    for await (const chunk of await chat({...fields, stream: true})) text += chunk.choices[0]?.delta.content ?? '';
    assert.equal(text, '["al');
  });

  test('many schemas at once do not mix', async () => {
    await Promise.all(
      Object.values(SCHEMAS)
        .flatMap((schema) => [schema, schema, schema])
        .map(async (schema, i) => {
          const answer = await chat({response_format: strict(schema), temperature: 1, seed: i, max_tokens: 400});
          assert.ok(ajv.validate(schema, JSON.parse(answer.choices[0].message.content)));
        }),
    );
  });
});
