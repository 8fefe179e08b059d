// The same checkpoint in llama.cpp: the same tokens, the same logits. Prompts are token ids, so no tokenizer takes part.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { Llama, follow, randomTokens } from './llama.js';

const SOURCE = join(import.meta.dirname, '../..');
const STEPS = 16;
// llama.cpp chunks its KDA by 64 tokens and its prompts by 512, and takes other ways for one token.
const LENGTHS = [1, 2, 63, 64, 65, 200, 511, 512, 513, 640];
// Logits go up to 13. Both compute in float32 here; seen: 2e-5.
const TOLERANCE = 2e-4;
// llama.cpp rounds what a bfloat16 matrix is multiplied with to bfloat16, we do not; seen: 0.41, on answers of the trained model.
const BF16_TOLERANCE = 1;

const dir = mkdtempSync(join(tmpdir(), 'weir-gguf-'));
after(() => rmSync(dir, { recursive: true }));

const run = (program, ...args) => execFileSync(program, args, { encoding: 'utf8', maxBuffer: 1 << 28 });
const config = (model) => JSON.parse(readFileSync(join(model, 'config.json')));

function ourAnswers(model, prompts, ...options) {
  const file = join(dir, 'prompts.json');
  writeFileSync(file, JSON.stringify({ cases: prompts.map((prompt) => ({ prompt })) }));
  return JSON.parse(run(process.env.WEIR_GGUF_BIN, 'greedy', model, file, `${STEPS}`, ...options)).cases;
}

function goldenPrompts(model) {
  return JSON.parse(readFileSync(join(model, 'golden.json'))).cases.map((c) => c.prompt);
}

function randomPrompts(model) {
  const seed = Number(process.env.WEIR_SEED ?? 1);
  console.log(`WEIR_SEED=${seed}`);
  return LENGTHS.map((length, i) => randomTokens(seed + i, length, config(model).vocab_size));
}

async function compare(model, prompts, ours, ...how) {
  const file = join(dir, 'model.gguf');
  run(process.env.WEIR_GGUF_BIN, 'write', model, file, ...how);
  const answers = ourAnswers(model, prompts, ...ours);
  const llama = await Llama.open(file, { exact: true });
  const found = await follow(llama, answers);
  await llama.close();
  assert.equal(found.steps, prompts.length * STEPS);
  console.log(`${found.steps} steps, ${found.others.length} differ, logits within ${found.distance.toPrecision(3)}`);
  return found;
}

function agrees(found, tolerance) {
  assert.ok(found.distance <= tolerance, `logits differ by ${found.distance}`);
  assert.deepEqual(found.others.filter((other) => other.margin > 2 * tolerance), []);
}

const weirTiny = join(SOURCE, 'configs/models/weir-tiny');

test('the bundled model: golden prompts and long ones', async () => {
  const prompts = [...goldenPrompts(weirTiny), ...randomPrompts(weirTiny)];
  agrees(await compare(weirTiny, prompts, ['--one-eps'], '--widened'), TOLERANCE);
});

test('the bundled model as the engine really runs it, each norm with its own epsilon', async () => {
  agrees(await compare(weirTiny, goldenPrompts(weirTiny), [], '--widened'), TOLERANCE);
});

test('the bundled model with weights in bfloat16', async () => {
  agrees(await compare(weirTiny, goldenPrompts(weirTiny), []), BF16_TOLERANCE);
});

test('the reference backend', async () => {
  agrees(await compare(weirTiny, goldenPrompts(weirTiny), ['--one-eps', '--reference'], '--widened'), TOLERANCE);
});

test('a checkpoint in shards that follows no text', async () => {
  const model = join(SOURCE, 'tests/data/kimi-linear-a');
  agrees(await compare(model, [...goldenPrompts(model), ...randomPrompts(model)], ['--one-eps'], '--widened'), TOLERANCE);
});

test('heads as wide as those of the published model', async () => {
  const model = join(dir, 'head-widths');
  run(process.env.WEIR_BIN, 'model', 'synth', '--config', join(import.meta.dirname, 'head_widths.json'), '--out', model);
  agrees(await compare(model, randomPrompts(model), ['--one-eps'], '--widened'), TOLERANCE);
});

test('the comparison can fail: other epsilons on a checkpoint that is sensitive to them', async () => {
  const model = join(SOURCE, 'tests/data/kimi-linear-a');
  const found = await compare(model, goldenPrompts(model), [], '--widened');
  assert.ok(found.distance > 100 * TOLERANCE);
  assert.throws(() => agrees(found, TOLERANCE));
});
