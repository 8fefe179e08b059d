// A published trace of conversations through weir in front of two `weir engine`: what it promises of their caches,
// held against what they report. Every so many conversations are taken as a whole; lengths are a 32nd, tokens made up
// from the trace's block ids.
import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import path from 'node:path';
import {describe, test} from 'node:test';

import {NAME, SLOW, logLine, randomSource} from './support/relay.js';
import {percent, routerOf, sum} from './support/routing.js';
import {MODEL, Weir} from './support/weir.js';

const TRACE = path.join(import.meta.dirname, '../../loadtest/traces/mooncake_conversation.jsonl');
const SCALE = 32;
const BLOCK = 512 / SCALE;
const VOCABULARY = 2048; // of weir-tiny, without special tokens
const CONTEXT = 8192;
const EVERY = Number(process.env.TRACE_EVERY ?? (SLOW ? 200 : 40)); // of the conversations
const AT_ONCE = Number(process.env.TRACE_AT_ONCE ?? 8);
const ANSWER = 4;
const ERROR_MAX = 0.02; // of all tokens reused

function blockOf(id) {
  const random = randomSource(id * 7919 + 1);
  return Array.from({length: BLOCK}, () => random(VOCABULARY));
}

// All share the first block; the second one tells conversations apart.
const turnsOf = (lines) =>
  lines
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line))
    .filter(({hash_ids: ids}) => ids.length > 1 && ids[1] % EVERY === 0)
    .map(({input_length: length, hash_ids: ids}) => ({
      conversation: ids[1],
      prompt: ids.flatMap(blockOf).slice(0, Math.ceil(length / SCALE)),
    }))
    .filter(({prompt}) => prompt.length + ANSWER < CONTEXT);

async function replicaOf(t, args) {
  const events = ['--kv-events-listen', 'tcp://127.0.0.1:0'];
  const replica = await Weir.engine(...events, '--no-access-log', '--threads', '1', ...args);
  t.after(() => replica.stop());
  return replica;
}

const targetOf = (replica, i, hints) => ({
  name: `r${i + 1}`,
  http: {base_url: replica.base, model: MODEL},
  cache: {checkpoint_tokens: 320, events: replica.events, replay: replica.replay, hints},
  metrics: {interval_ms: 200},
});

async function send(weir, prompt) {
  const answer = await weir.post('/v1/completions', {model: NAME, prompt, max_tokens: ANSWER});
  const body = await answer.json();
  assert.equal(answer.status, 200, JSON.stringify(body));
  const line = await logLine(weir, {headers: Object.fromEntries(answer.headers)});
  return {
    target: line.target,
    tokens: prompt.length,
    predicted: line.predicted_cached_tokens ?? 0,
    cached: body.usage.prompt_tokens_details.cached_tokens,
  };
}

// In the trace's order, so many at once; nobody goes on with a conversation before it was answered.
async function replay(weir, turns) {
  const out = [];
  const last = new Map();
  let next = 0;
  const lane = async () => {
    while (next < turns.length) {
      const at = next++;
      const {conversation, prompt} = turns[at];
      const turn = (last.get(conversation) ?? Promise.resolve()).then(() => send(weir, prompt));
      last.set(conversation, turn);
      out[at] = await turn;
    }
  };
  await Promise.all(Array.from({length: AT_ONCE}, lane));
  return out;
}

describe('the conversation trace through two replicas', {timeout: 600_000}, () => {
  for (const [what, args, hints, evicts] of [
    ['room for all', [], false, false],
    ['hints, and a cache too small for all', ['--kv-bytes', '12MiB', '--sequences', '8'], true, true],
  ]) {
    test(`${what}: what is promised is reused`, async (t) => {
      const replicas = [await replicaOf(t, args), await replicaOf(t, args)];
      const weir = await routerOf(t, replicas.map((replica, i) => targetOf(replica, i, hints)));
      const got = await replay(weir, turnsOf(readFileSync(TRACE, 'utf8').split('\n')));
      const of = (key) => sum(got.map((one) => one[key]));
      const wrong = got.filter(({predicted, cached}) => predicted !== cached);
      const error = sum(wrong.map(({predicted, cached}) => Math.abs(predicted - cached))) / of('cached');
      const difference = Math.abs(of('predicted') - of('cached')) / of('cached');
      t.diagnostic(
        `${got.length} requests of ${of('tokens')} tokens: ${of('predicted')} promised, ${of('cached')} reused (` +
          `${percent(of('cached') / of('tokens'))}): ${percent(difference)} off, each by itself ${percent(error)} ` +
          `in ${wrong.length} requests`,
      );
      assert.ok(of('cached') > 0.1 * of('tokens'));
      for (const replica of replicas) {
        const [evicted] = await replica.metric(/^weir_engine_checkpoints_evicted_total/);
        // A short trace does not fill even the small one.
        if (!SLOW || !evicts) assert.equal(evicted > 0, evicts, `${evicted} evicted`);
      }
      assert.equal(new Set(got.map(({target}) => target)).size, 2);
      assert.ok(difference <= ERROR_MAX, `${difference}`);
    });
  }
});
