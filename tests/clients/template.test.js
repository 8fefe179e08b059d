// Prompts against the checkpoint's own chat template, run by a Jinja implementation.
import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import path from 'node:path';
import {after, before, test} from 'node:test';

import {Template} from '@huggingface/jinja';

import {random, soup} from './support/corpus.js';
import {WeirEncode} from './support/weir_encode.js';
import {ADD, WEATHER} from './support/weir.js';

const modelDir = path.join(import.meta.dirname, '../../configs/models/weir-tiny');
const template = new Template(readFileSync(path.join(modelDir, 'chat_template.jinja'), 'utf8'));
const SEED = 20261129;

let weir;
before(() => {
  weir = new WeirEncode(modelDir);
});
after(() => weir.close());

async function agrees(messages, tools) {
  const rendered = template.render({messages, tools, add_generation_prompt: true});
  assert.deepEqual(await weir.render({messages, tools}), await weir.encodeWithSpecials(rendered));
}

const call = {
  id: 'functions.add:0',
  type: 'function',
  function: {name: 'add', arguments: '{"a": 1, "b": 2}'},
};
const rows = {
  'a question': [[{role: 'user', content: 'Hi'}]],
  'every role': [
    [
      {role: 'system', content: 'S'},
      {role: 'developer', content: 'D'},
      {role: 'user', content: 'U'},
      {role: 'assistant', content: 'A'},
    ],
  ],
  'empty contents': [
    [
      {role: 'system', content: ''},
      {role: 'user', content: ''},
      {role: 'assistant', content: ''},
    ],
  ],
  'white space at the edges': [
    [
      {role: 'user', content: '  a \n\n'},
      {role: 'assistant', content: '\n b '},
    ],
  ],
  tools: [[{role: 'user', content: 'Add 1 and 2.'}], [WEATHER, ADD]],
  'tools with odd text': [
    [{role: 'user', content: 'x'}],
    [{type: 'function', function: {name: 'ü', description: '"\\\n\t<&é中😀\u007f'}}],
  ],
  'no tools': [[{role: 'user', content: 'x'}], []],
  'a call and its result': [
    [
      {role: 'user', content: 'Add.'},
      {role: 'assistant', content: null, tool_calls: [call, call]},
      {role: 'tool', tool_call_id: 'functions.add:0', content: '3'},
    ],
    [ADD],
  ],
  'content before a call': [[{role: 'assistant', content: 'I add.', tool_calls: [call]}]],
};
for (const [name, [messages, tools]] of Object.entries(rows)) test(name, () => agrees(messages, tools));

test('random conversations', async () => {
  const r = random(SEED);
  const text = () => soup(r, r.below(60)).replaceAll('<|', '<');
  for (let i = 0; i < 500; ++i) {
    const messages = Array.from({length: 1 + r.below(5)}, () =>
      r.pick([
        () => ({role: 'user', content: text()}),
        () => ({role: 'system', content: text()}),
        () => ({role: 'assistant', content: text()}),
        () => ({
          role: 'assistant',
          content: text(),
          tool_calls: [{...call, function: {name: 'add', arguments: text()}}],
        }),
        () => ({role: 'tool', tool_call_id: 'functions.add:0', content: text()}),
      ])(),
    );
    await agrees(
      messages,
      r.below(2) ? [ADD, {type: 'function', function: {name: 'f', description: text()}}] : undefined,
    );
  }
});
