// Prefill and decode of llama.cpp and of Weir's engine on the same random weights in bfloat16, in one run: make bench-llama.
// node bench.js BUILD_DIR [--config FILE] [--rounds N] [--threads N] [--seconds S] [--weir OPTIONS] [--dir DIR]
// Each round measures the two in turn, each in a process of its own, with nothing else at work; medians over the rounds
// count. llama.cpp takes prompts in at once and runs with and without flash attention; the better figure counts for each
// phase. Then both continue the same prompts. Exit status 1: they differ where our margin is clear.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { Llama, follow, randomTokens } from './llama.js';

const PROMPT = 512; // what llama.cpp takes in as one batch, and Weir as one step
const CONTEXT = 128;
const STEPS = 32;
// llama.cpp rounds what a bfloat16 matrix is multiplied with to bfloat16, and with it now and then the choice of an expert.
// Where our two best logits are nearer than this, the other one is no fault.
const NEAR = 0.25;

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

async function compare(made, dir) {
  const prompts = [8, 100, 600].map((length) => ({ prompt: randomTokens(length, length, made.vocab) }));
  const file = join(dir, 'prompts.json');
  writeFileSync(file, JSON.stringify({ cases: prompts }));
  const tool = join(build, 'tests/weir_gguf');
  const answers = JSON.parse(run(tool, 'greedy', made.model, file, `${STEPS}`, '--threads', given.threads)).cases;
  const llama = await Llama.open(made.file, { threads: Number(given.threads), exact: true });
  const found = await follow(llama, answers);
  await llama.close();
  const clear = found.others.filter((other) => other.margin > NEAR);
  console.log(`greedy: ${found.steps - found.others.length} of ${found.steps} tokens the same, ${clear.length} others at a ` +
              `margin over ${NEAR}; logits within ${found.distance.toFixed(2)}`);
  for (const other of clear) console.log(JSON.stringify(other));
  return clear.length === 0;
}

const dir = given.dir ? resolve(given.dir) : mkdtempSync(join(tmpdir(), 'weir-bench-llama-'));
try {
  mkdirSync(dir, { recursive: true });
  const made = makeModel(dir);
  measure(made);
  if (!(await compare(made, dir))) process.exitCode = 1;
} finally {
  if (!given.dir) rmSync(dir, { recursive: true });
}
