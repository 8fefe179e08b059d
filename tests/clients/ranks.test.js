// `weir engine --ranks`: a model divided among processes answers as one does, and ends when one of them does.
import assert from 'node:assert/strict';
import {spawn, spawnSync} from 'node:child_process';
import {readFileSync} from 'node:fs';
import {describe, test} from 'node:test';

import {eventually} from './support/raw.js';
import {MODEL, Weir, user} from './support/weir.js';

const EOS = 2050;
const QUESTIONS = ['ping', 'What is the capital of Kenya?', 'What is 12 plus 30?'];

function isAlive(pid) {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

const followersOf = ({child: {pid}}) =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number);

const gone = (pids) => eventually(`ranks ${pids} gone`, () => !pids.some(isAlive));

async function answersOf(weir) {
  const answers = [];
  for (const question of QUESTIONS) {
    const {choices} = await weir.chat({messages: [user(question)], temperature: 0, max_tokens: 24});
    answers.push(choices[0].message.content);
  }
  return answers;
}

// A stream that has begun and would go on for long: what came of it, and the rest.
async function longStream(weir) {
  const reply = await weir.post('/v1/completions', {
    model: MODEL,
    prompt: 'Once upon a time',
    max_tokens: 8000,
    stream: true,
    logit_bias: {[EOS]: -100},
  });
  assert.equal(reply.status, 200);
  const reader = reply.body.getReader();
  await reader.read();
  return reader;
}

async function rest(reader) {
  let text = '';
  try {
    for (;;) {
      const {done, value} = await reader.read();
      if (done) return text;
      text += Buffer.from(value).toString();
    }
  } catch {
    return text; // an aborted body
  }
}

describe('ranks', {timeout: 240_000}, () => {
  test('a model divided either way answers as it does whole, and its ranks end with it', async () => {
    const whole = await Weir.engine('--backend', 'reference');
    const expected = await answersOf(whole);
    await whole.stop();
    for (const split of ['tensor', 'expert']) {
      const weir = await Weir.engine('--ranks', '2', '--split', split, '--backend', 'reference');
      const pids = followersOf(weir);
      assert.equal(pids.length, 1);
      assert.deepEqual(await answersOf(weir), expected);
      assert.equal((await fetch(`${weir.url}/health`)).status, 200);
      await weir.stop();
      await gone(pids);
    }
  });

  test('a rank killed amid a stream ends it with an error, and the program with a code', async () => {
    const weir = await Weir.engine('--ranks', '2');
    const pids = followersOf(weir);
    const reader = await longStream(weir);
    process.kill(pids[0], 'SIGKILL');
    const text = await rest(reader);
    assert.match(text, /"error"/);
    assert.ok(!text.includes('[DONE]'), text.slice(-200));
    const health = await fetch(`${weir.url}/health`);
    assert.equal(health.status, 503);
    const why = 'lost rank 1 (its process ended)';
    assert.deepEqual(await health.json(), {status: 'failed', reason: why});
    const refused = await weir.post('/v1/completions', {model: MODEL, prompt: 'x', max_tokens: 1});
    assert.ok(refused.status >= 500, `${refused.status}`);
    const {code} = await weir.ended;
    assert.equal(code, 1, weir.log);
    assert.ok(weir.log.includes(why), weir.log);
    await gone(pids);
  });

  test('a rank killed at rest is noticed', async () => {
    const weir = await Weir.engine('--ranks', '2');
    process.kill(followersOf(weir)[0], 'SIGKILL');
    const {code} = await weir.ended;
    assert.equal(code, 1, weir.log);
  });

  test('no rank outlives rank 0', async () => {
    const weir = await Weir.engine('--ranks', '2');
    const pids = followersOf(weir);
    weir.child.kill('SIGKILL');
    await weir.ended;
    await gone(pids);
  });

  test('ranks that a launcher started find each other', async () => {
    const model = ['--model', new URL('../../configs/models/weir-tiny', import.meta.url).pathname];
    const place = (rank) => ({RANK: rank, WORLD_SIZE: '2', LOCAL_RANK: rank, MASTER_PORT: `${20_000 + process.pid % 40_000}`});
    const follower = spawn(process.env.WEIR_BIN, ['engine', ...model, '--listen', '127.0.0.1:0'], {
      env: {...process.env, ...place('1')},
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    const ended = new Promise((resolve) => follower.on('close', (code, signal) => resolve(signal ?? code)));
    Object.assign(process.env, place('0'));
    let weir;
    try {
      weir = await Weir.engine();
    } finally {
      for (const name of Object.keys(place('0'))) delete process.env[name];
    }
    assert.equal((await weir.chat({messages: [user('ping')], max_tokens: 4})).object, 'chat.completion');
    follower.kill('SIGTERM'); // is rank 0's to hear
    assert.equal((await weir.chat({messages: [user('ping')], max_tokens: 4})).object, 'chat.completion');
    await weir.stop();
    assert.equal(await ended, 0);
  });

  test('a rank that dies before all have come together ends the others at once', async () => {
    const model = new URL('../../configs/models/weir-tiny', import.meta.url).pathname;
    const args = ['engine', '--ranks', '2', '--model', model, '--listen', '127.0.0.1:0'];
    const child = spawn(process.env.WEIR_BIN, args, {stdio: ['ignore', 'ignore', 'pipe']});
    let errors = '';
    child.stderr.on('data', (bytes) => (errors += bytes));
    const ended = new Promise((resolve) => child.on('close', (code, signal) => resolve(signal ?? code)));
    let others = [];
    await eventually('a rank started', () => (others = followersOf({child})).length > 0);
    process.kill(others[0], 'SIGKILL');
    assert.equal(await ended, 1);
    // Or they had come together by then.
    assert.match(errors, /rank 1 ended before all had come together \(signal 9\)|lost rank 1/);
    await gone(others);
  });

  test('what cannot be is refused before anything is loaded', () => {
    const refusal = (args, env = {}) => {
      const {status, stderr} = spawnSync(process.env.WEIR_BIN, ['engine', ...args], {
        env: {...process.env, ...env},
        encoding: 'utf8',
        timeout: 20_000,
      });
      assert.equal(status, 2, stderr);
      return stderr;
    };
    assert.equal(
      refusal(['--ranks', '4']),
      'weir engine: linear_attn_config.num_heads is 6: 4 ranks do not divide it\n',
    );
    assert.match(refusal(['--ranks', '3', '--split', 'expert']), /intermediate_size is 512: 3 ranks/);
    assert.match(refusal([], {RANK: '0'}), /RANK is set and WORLD_SIZE is not/);
    assert.match(refusal(['--ranks', '3'], {RANK: '0', WORLD_SIZE: '2'}), /--ranks: 3, but a launcher started 2/);
    assert.match(refusal(['--ranks', '65']), /--ranks/);
  });
});
