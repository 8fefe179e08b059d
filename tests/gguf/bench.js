// Prefill and decode of llama.cpp and of Weir's engine on the same random weights in bfloat16, in one run: make bench-llama.
// node bench.js BUILD_DIR [--config FILE] [--rounds N] [--threads N] [--seconds S] [--weir OPTIONS] [--dir DIR]
// Each round measures the two in turn, each in a process of its own, with nothing else at work; medians over the rounds
// count. llama.cpp takes prompts in at once and runs with and without flash attention; the better figure counts for each
// phase. Then both continue the same prompts, once with these weights and once with the same values in float32 (twice the
// file, which is made for that and removed). Exit status 1: they differ where our margin is clear.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { Llama, follow, randomTokens } from './llama.js';

const PROMPT = 512; // what llama.cpp takes in as one batch, and Weir as one step
const CONTEXT = 128;
const STEPS = 32;
// A token may be another one where our two best logits are nearer than this. With bfloat16 matrices llama.cpp rounds what
// they are multiplied with, and with it now and then the choice of an expert; in float32 there is no such excuse.
const NEAR = { stored: 0.25, widened: 1e-3 };

const { values: given, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    config: { type: 'string', default: join(import.meta.dirname, '../../configs/models/kimi-linear-8-layers.json') },
    rounds: { type: 'string', default: '3' },
    threads: { type: 'string', default: '2' },
    seconds: { type: 'string', default: '5' },
    weir: { type: 'string', default: '' }, // more options of `weir model bench`, spaces between them
    dir: { type: 'string' }, // where the model is made, or lies from a run before; else it is made and removed
  },
});
const build = resolve(positionals[0] ?? 'build/release');
const run = (program, ...args) =>
  execFileSync(program, args, { encoding: 'utf8', maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'inherit'] });

function makeModel(dir) {
  const model = join(dir, 'model');
  const file = join(dir, 'model.gguf');
  if (!existsSync(file)) {
    console.error('making the model');
    run(join(build, 'weir'), 'model', 'synth', '--config', given.config, '--out', model);
    run(join(build, 'tests/weir_gguf'), 'write', model, file);
  }
  return { model, file, vocab: JSON.parse(readFileSync(join(model, 'config.json'))).vocab_size };
}

function measureLlama(made, flash) {
  const options = { ...made, flash, threads: Number(given.threads), seconds: Number(given.seconds) };
  Object.assign(options, { prompt: PROMPT, context: CONTEXT, steps: STEPS });
  return JSON.parse(run(process.execPath, join(import.meta.dirname, 'bench_llama.js'), JSON.stringify(options)));
}

function measureWeir(made) {
  const args = ['model', 'bench', '--model', made.model, '--threads', given.threads, '--prompt', PROMPT, '--chunk', PROMPT];
  args.push('--batch', 1, '--context', CONTEXT, '--steps', STEPS, '--seconds', given.seconds, '--json');
  const more = given.weir.split(' ').filter((word) => word !== '');
  const report = JSON.parse(run(join(build, 'weir'), ...args.map(String), ...more));
  return {
    prefill: report.prefill.tokens_per_s,
    decode: report.decode[0].tokens_per_s,
    gigabytes: report.token_bytes / 1e9,
    reads: report.machine.read_bytes_per_s / 1e9,
  };
}

const median = (numbers) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];

function measure(made) {
  const rounds = [];
  for (let i = 0; i < Number(given.rounds); i += 1) {
    const round = { weir: measureWeir(made), flash: measureLlama(made, true), plain: measureLlama(made, false) };
    rounds.push(round);
    const shown = Object.entries(round).map(([name, r]) => `${name} ${r.prefill.toFixed(1)} ${r.decode.toFixed(2)}`);
    console.log(`round ${i + 1}, prefill and decode: ${shown.join('; ')}`);
  }
  const { gigabytes } = rounds[0].weir;
  const reads = median(rounds.map((r) => r.weir.reads));
  console.log(`${gigabytes.toFixed(2)} GB of weights for one token, ${given.threads} threads, reading ${reads.toFixed(1)} GB/s`);
  for (const phase of ['prefill', 'decode']) {
    const of = (name) => median(rounds.map((r) => r[name][phase]));
    const theirs = Math.max(of('flash'), of('plain'));
    const tokens = phase === 'prefill' ? `${PROMPT} tokens` : 'batch 1';
    console.log(`${phase}, ${tokens}: llama.cpp ${theirs.toFixed(2)} tokens/s, weir ${of('weir').toFixed(2)}, ` +
                `ratio ${(of('weir') / theirs).toFixed(2)}`);
  }
}

// `how`: a key of NEAR. Widened, we use llama.cpp's epsilons, so that nothing but rounding is left.
async function compare(made, dir, how) {
  const tool = join(build, 'tests/weir_gguf');
  const file = how === 'widened' ? join(dir, 'widened.gguf') : made.file;
  if (how === 'widened') run(tool, 'write', made.model, file, '--widened');
  const prompts = [8, 100, 600].map((length) => ({ prompt: randomTokens(length, length, made.vocab) }));
  const list = join(dir, 'prompts.json');
  writeFileSync(list, JSON.stringify({ cases: prompts }));
  const options = ['--threads', given.threads, ...(how === 'widened' ? ['--one-eps'] : [])];
  const answers = JSON.parse(run(tool, 'greedy', made.model, list, `${STEPS}`, ...options)).cases;
  const llama = await Llama.open(file, { threads: Number(given.threads), exact: true });
  const found = await follow(llama, answers);
  await llama.close();
  if (how === 'widened') rmSync(file);
  const clear = found.others.filter((other) => other.margin > NEAR[how]);
  console.log(`greedy, weights ${how}: ${found.steps - found.others.length} of ${found.steps} tokens the same, ` +
              `${clear.length} others at a margin over ${NEAR[how]}; logits within ${found.distance.toPrecision(2)}`);
  for (const other of clear) console.log(JSON.stringify(other));
  return clear.length === 0;
}

const dir = given.dir ? resolve(given.dir) : mkdtempSync(join(tmpdir(), 'weir-bench-llama-'));
try {
  mkdirSync(dir, { recursive: true });
  const made = makeModel(dir);
  measure(made);
  for (const how of Object.keys(NEAR)) {
    if (!(await compare(made, dir, how))) process.exitCode = 1;
  }
} finally {
  if (!given.dir) rmSync(dir, { recursive: true });
}
