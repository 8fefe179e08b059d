// Weir in front of mocks that keep caches in earnest, and what it says of its decisions.
import {createHmac} from 'node:crypto';
import {mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import path from 'node:path';

import {Tool} from './loadtest.js';
import {NAME, counts, logLine, randomSource, startRelay} from './relay.js';

export const UNIT = 64; // tokens that a key of the index stands for
export const CHECKPOINT = 16_253;
export const CAPACITY = 2_560_000;
export const tokenizer = path.join(import.meta.dirname, '../../../configs/models/weir-tiny');
export const HYBRID_CACHE = {checkpoint_tokens: CHECKPOINT, capacity_tokens: CAPACITY};
export const DENSE_CACHE = {capacity_tokens: CAPACITY};

const RATE = 1_000_000; // prefills that take no time worth telling, but run one after another

// A mock's flags; a later one wins.
export function flags(fields = {}) {
  const all = {
    tokens: 2,
    'block-tokens': UNIT,
    'capacity-tokens': CAPACITY,
    'checkpoint-tokens': CHECKPOINT,
    retention: 'second-sighting',
    'prefill-tokens-per-s': RATE,
    ...fields,
  };
  const flag = ([name, value]) => (value === true ? [`--${name}`] : [`--${name}`, `${value}`]);
  return Object.entries(all).flatMap(flag);
}

export const startMock = (fields) => Tool.start('mock', ...flags(fields));

export async function mocksOf(t, count, fields) {
  const mocks = [];
  for (let i = 0; i < count; ++i) {
    const mock = await startMock(fields);
    t.after(() => mock.stop());
    mocks.push(mock);
  }
  return mocks;
}

// Targets r1, r2, ... for mocks.
export const replicas = (mocks, cache = HYBRID_CACHE, fields = {}) =>
  mocks.map((mock, i) => ({
    name: `r${i + 1}`,
    http: {base_url: `${mock.url}/v1`},
    speed: {prefill_tokens_per_s: RATE, ttft_base_ms: 1},
    cache,
    ...fields,
  }));

// Weir with a tokenizer, so that ids and texts are keyed by tokens. Stop it.
export const startRouter = (targets, change = (config) => config) =>
  startRelay(targets, (config, dir) =>
    change({...config, models: config.models.map((model) => ({...model, tokenizer}))}, dir),
  );

export async function routerOf(t, targets, change) {
  const weir = await startRouter(targets, change);
  t.after(() => weir.stop());
  return weir;
}

// Token ids that differ between seeds from the first one on.
export function ids(seed, count) {
  const random = randomSource(seed * 7919 + 1);
  return [seed, ...Array.from({length: count - 1}, () => random(150_000))];
}

// One answer, with its line of the access log: target, predicted_cached_tokens, cached_tokens.
export async function ask(weir, prompt, fields = {}, headers = {}) {
  const answer = await weir.post('/v1/completions', {model: NAME, prompt, max_tokens: 2, ...fields}, headers);
  const text = await answer.text();
  if (answer.status !== 200) throw new Error(`${answer.status} ${text}`);
  const line = await logLine(weir, {headers: Object.fromEntries(answer.headers)});
  return {
    target: line.target,
    predicted: line.predicted_cached_tokens ?? 0,
    cached: line.cached_tokens ?? -1,
    ms: line.duration_ms,
    usage: JSON.parse(text).usage,
    headers: answer.headers,
  };
}

// The decision for a prompt, or for a whole request; `who`: {tenant, key}.
export async function explain(weir, prompt, who = {}, fields = {}) {
  const request = Array.isArray(prompt) || typeof prompt === 'string' ? {prompt} : prompt;
  const answer = await fetch(`${weir.admin}/admin/v1/explain`, {
    method: 'POST',
    headers: {'content-type': 'application/json'},
    body: JSON.stringify({...who, request: {model: NAME, ...request, ...fields}}),
  });
  const body = await answer.json();
  if (answer.status !== 200) throw new Error(`${answer.status} ${JSON.stringify(body)}`);
  return body;
}

// [pages, reusable, evidence] per target.
export const holdings = async (weir, prompt, who) =>
  (await explain(weir, prompt, who)).candidates.map((c) => [c.page_tokens, c.reusable_tokens, c.evidence]);

export const prefixTokens = (weir) => counts(weir, 'weir_prefix_tokens_total', 'kind');
export const keyed = (weir) => counts(weir, 'weir_prompts_keyed_total', 'how');

// The auth section for keys {key: tenant, or {tenant, limits, ...}}; a key's name is itself.
export function keysOf(tenants, dir) {
  const secret = 'a secret of thirty-two bytes or so';
  const file = path.join(dir, 'secret');
  writeFileSync(file, secret, {mode: 0o600});
  const digest = (key) => createHmac('sha256', secret).update(key).digest('hex');
  return {
    secret_file: file,
    keys: Object.entries(tenants).map(([key, terms]) => ({
      name: key,
      digest: digest(key),
      ...(typeof terms === 'string' ? {tenant: terms} : terms),
    })),
  };
}

export const bearer = (key) => ({authorization: `Bearer ${key}`});

const folders = [];
process.once('exit', () => folders.forEach((dir) => rmSync(dir, {recursive: true, force: true})));

// Gone with this process: hooks run in the order of their making, so a gateway may outlive the caller's.
export function folderOf() {
  folders.push(mkdtempSync(path.join(tmpdir(), 'weir-state-')));
  return folders.at(-1);
}

export const sum = (numbers) => numbers.reduce((total, n) => total + n, 0);
export const tally = (values) =>
  values.reduce((out, value) => ({...out, [value]: (out[value] ?? 0) + 1}), {});
export const percent = (share) => `${(100 * share).toFixed(1)}%`;

// Conversations without anything in common, each turn of which repeats all before.
export class Sessions {
  round = 0;

  constructor(count = 40) {
    this.count = count;
    this.prompts = Array.from({length: count}, (_, i) => ids(i, 1_200));
  }

  // One turn of each, in turn by the gateways given. The share of prompt tokens that replicas reused, where
  // each went and what share of it was reused there, which promises were wrong and how many too high.
  async play(...weirs) {
    const out = {cached: 0, asked: 0, targets: [], reused: [], wrong: [], over: 0};
    this.round += 1;
    for (const [i, prompt] of this.prompts.entries()) {
      const got = await ask(weirs[i % weirs.length], prompt);
      out.cached += got.cached;
      out.asked += prompt.length;
      out.targets.push(got.target);
      out.reused.push(got.cached / prompt.length);
      if (got.predicted !== got.cached) out.wrong.push(i);
      if (got.predicted > got.cached) out.over += 1;
      this.prompts[i] = [...prompt, ...ids(1_000 * this.round + i, 150)];
    }
    out.rate = out.cached / out.asked;
    return out;
  }

  async turn(...weirs) {
    return (await this.play(...weirs)).rate;
  }
}
