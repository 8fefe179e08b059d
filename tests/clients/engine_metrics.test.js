// What operators see of an engine: its pool to the byte, its cache, steps, operations, experts and latencies, at
// `weir engine` and at the gateway that embeds one.
import assert from 'node:assert/strict';
import {spawnSync} from 'node:child_process';
import {describe, test} from 'node:test';

import {eventually} from './support/raw.js';
import {sum} from './support/routing.js';
import {Weir, user} from './support/weir.js';

const POOL = 9 * 102_400 + 4_321; // slabs of weir-tiny, and what makes none
const words = (seed, count) =>
  Array.from({length: count}, (_, i) => `w${(seed * 7919 + i * 104_729) % 9973}`).join(' ');
const lint = (text) => spawnSync('promtool', ['check', 'metrics'], {input: text, encoding: 'utf8'});

// {name: [{labels, value}]} of all series.
function seriesOf(text) {
  const out = {};
  for (const [, name, , inner, value] of text.matchAll(/^([\w:]+)(\{([^}]*)\})? (\S+)$/gm)) {
    const labels = Object.fromEntries([...(inner ?? '').matchAll(/(\w+)="([^"]*)"/g)].map(([, k, v]) => [k, v]));
    (out[name] ??= []).push({labels, value: Number(value)});
  }
  return out;
}

const scrape = async (url) => {
  const text = await (await fetch(`${url}/metrics`)).text();
  return {text, series: seriesOf(text)};
};
const total = (series, name, wanted = {}) =>
  sum(
    (series[name] ?? [])
      .filter(({labels}) => Object.entries(wanted).every(([label, value]) => labels[label] === value))
      .map(({value}) => value),
  );

const started = async (t, weir) => {
  t.after(() => weir.stop());
  return weir;
};

// Two turns of a conversation; what both asked and were told.
async function twoTurns(weir) {
  const messages = [user(words(1, 100))];
  const first = await weir.chat({messages, max_tokens: 8, cache_salt: 's'});
  messages.push({role: 'assistant', content: first.choices[0].message.content ?? ''}, user('more'));
  const second = await weir.chat({messages, max_tokens: 8, cache_salt: 's'});
  const all = [first.usage, second.usage];
  return {
    prompt: sum(all.map((usage) => usage.prompt_tokens)),
    cached: second.usage.prompt_tokens_details.cached_tokens,
  };
}

// The last step counts when it is over, a little behind the answer. All but the last token of each is an input.
async function settled(url, {prompt, cached}) {
  let got;
  await eventually('the last step to count', async () => {
    got = await scrape(url);
    const generated = total(got.series, 'weir_engine_tokens_total', {kind: 'generated'});
    return total(got.series, 'weir_engine_step_tokens_total') === prompt - cached + generated - 2;
  });
  return got;
}

function checkEngine(series, said) {
  const {prompt, cached} = said;
  assert.equal(total(series, 'weir_engine_pool_bytes'), POOL);
  assert.equal(total(series, 'weir_engine_pool_bytes', {kind: 'remainder'}), 4_321);
  assert.equal(total(series, 'weir_engine_pool_bytes', {kind: 'states'}), 0);
  const kept = total(series, 'weir_engine_checkpoints');
  assert.ok(kept > 0);
  assert.equal(
    total(series, 'weir_engine_pool_bytes', {kind: 'cached_states'}),
    kept * total(series, 'weir_engine_state_bytes'),
  );
  assert.ok(total(series, 'weir_engine_weight_bytes') > 1e6);
  assert.ok(cached > 0);
  assert.equal(total(series, 'weir_engine_cached_tokens_total', {kind: 'prompt_end'}), cached);
  assert.equal(total(series, 'weir_engine_cached_tokens_total'), cached);
  assert.equal(total(series, 'weir_engine_tokens_total', {kind: 'prompt'}), prompt - cached);

  const steps = total(series, 'weir_engine_step_seconds_count');
  assert.ok(steps > 0);
  const generated = total(series, 'weir_engine_tokens_total', {kind: 'generated'});
  assert.ok(total(series, 'weir_engine_step_tokens_total', {phase: 'decode'}) > 0);
  const operators = total(series, 'weir_engine_operator_seconds_total');
  const seconds = total(series, 'weir_engine_step_seconds_sum');
  assert.ok(operators > 0 && operators <= seconds, `${operators} of ${seconds}`);
  assert.ok(total(series, 'weir_engine_operator_seconds_total', {operator: 'experts'}) > 0);
  const named = series.weir_engine_operator_seconds_total.map(({labels}) => labels.operator);
  assert.ok(named.includes('kda') && !named.includes('situ_mul'), 'those that the model has');

  const layers = series.weir_engine_expert_imbalance;
  assert.ok(layers.length > 0 && layers.every(({value}) => value >= 1));
  assert.equal(series.weir_engine_expert_busiest.length, layers.length);
  assert.equal(total(series, 'weir_engine_expert_tokens_total') % (prompt - cached + generated - 2), 0);
  assert.ok(total(series, 'weir_engine_experts_read_total', {phase: 'decode'}) > 0);

  assert.equal(total(series, 'weir_engine_sequences_ended_total'), 2);
  for (const name of ['queue', 'first_token', 'sequence'])
    assert.equal(total(series, `weir_engine_${name}_seconds_count`), 2, name);
  assert.equal(total(series, 'weir_engine_token_gap_seconds_count'), generated - 2);
}

describe('metrics of an engine', {timeout: 120_000}, () => {
  test('embedded: in the gateway’s', async (t) => {
    const weir = await started(
      t,
      await Weir.start((config) => ({
        ...config,
        targets: config.targets.map((one) => ({...one, engine: {...one.engine, kv_bytes: POOL}})),
      })),
    );
    const said = await twoTurns(weir);
    const {text, series} = await settled(weir.admin, said);
    checkEngine(series, said);
    assert.equal(series.weir_engine_tokens_by_expert_total, undefined);
    const {status, stdout, stderr} = lint(text);
    assert.equal(status, 0, stdout + stderr);
  });

  test('a replica’s: with vLLM’s names, and each expert where asked for', async (t) => {
    const replica = await started(t, await Weir.engine('--kv-bytes', `${POOL}`, '--expert-series'));
    const said = await twoTurns(replica);
    const {text, series} = await settled(replica.url, said);
    checkEngine(series, said);
    for (const [vllm, own] of [
      ['time_to_first_token', 'first_token'],
      ['inter_token_latency', 'token_gap'],
      ['time_per_output_token', 'token_gap'],
      ['e2e_request_latency', 'sequence'],
      ['request_queue_time', 'queue'],
    ]) {
      for (const part of ['count', 'sum'])
        assert.equal(
          total(series, `vllm:${vllm}_seconds_${part}`),
          total(series, `weir_engine_${own}_seconds_${part}`),
        );
    }
    const bounds = (name) =>
      series[`vllm:${name}_seconds_bucket`].map(({labels}) => Number(labels.le.replace('+Inf', 'Infinity')));
    assert.deepEqual(bounds('time_to_first_token').slice(0, 5), [0.001, 0.005, 0.01, 0.02, 0.04]);
    assert.deepEqual(bounds('time_to_first_token').slice(-3), [640, 2560, Infinity]);
    assert.deepEqual(bounds('inter_token_latency').slice(-3), [40, 80, Infinity]);
    assert.deepEqual(bounds('request_queue_time').slice(-3), [1920, 7680, Infinity]);
    assert.equal(total(series, 'vllm:request_success_total'), 2);
    assert.equal(total(series, 'weir_engine_tokens_by_expert_total'), total(series, 'weir_engine_expert_tokens_total'));
    const lines = lint(text).stderr.split('\n');
    const faults = lines.filter((line) => line !== '' && !line.includes("should not contain ':'"));
    assert.deepEqual(faults, []);
  });
});
