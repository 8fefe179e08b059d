// The bundled model answers what its README promises: at least 14 of 16 right, word for word.
import assert from 'node:assert/strict';
import {after, before, describe, test} from 'node:test';

import {SKILLS} from './data/skills.js';
import {Weir} from './support/weir.js';

const RIGHT_MIN = 14;

describe('skills of weir-tiny', () => {
  let weir;
  before(async () => {
    weir = await Weir.start();
  });
  after(() => weir.stop());

  for (const [skill, cases] of Object.entries(SKILLS)) {
    test(skill, async () => {
      assert.equal(cases.length, 16);
      const wrong = (
        await Promise.all(
          cases.map(async ([messages, expected, tools]) => {
            const {message, finish_reason: finish} = (await weir.chat({messages, tools, max_tokens: 200}))
              .choices[0];
            if (typeof expected === 'string') return message.content === expected ? null : message.content;
            const call = message.tool_calls?.[0]?.function;
            const right =
              finish === 'tool_calls' &&
              call?.name === expected.tool &&
              sameJson(call.arguments, expected.arguments);
            return right ? null : JSON.stringify(message);
          }),
        )
      ).filter((answer) => answer !== null);
      assert.ok(cases.length - wrong.length >= RIGHT_MIN, `${wrong.length} wrong: ${wrong.join(' | ')}`);
    });
  }
});

function sameJson(text, value) {
  try {
    assert.deepEqual(JSON.parse(text), value);
    return true;
  } catch {
    return false;
  }
}
