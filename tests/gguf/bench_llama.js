// node bench_llama.js JSON: what llama.cpp makes of a file, as one JSON line on stdout: tokens/s of prefill and of decode, as
// `weir model bench` measures them: random tokens, logits after each prompt and each step. Options as in bench.js.
import { performance } from 'node:perf_hooks';
import { Llama, randomTokens } from './llama.js';

const options = JSON.parse(process.argv[2]);
const llama = await Llama.open(options.file, {
  threads: options.threads,
  contextSize: Math.max(options.prompt, options.context + options.steps + 1),
  flash: options.flash,
});
let seed = 1;
const tokens = (count) => randomTokens((seed += 1), count, options.vocab);

// Tokens per second of what `work` takes in, repeated for at least so long; what `prepare` takes is not counted.
async function rate(prepare, work) {
  let count = 0;
  let seconds = 0;
  while (seconds < options.seconds) {
    await llama.restart();
    await prepare();
    const begin = performance.now();
    count += await work();
    seconds += (performance.now() - begin) / 1000;
  }
  return count / seconds;
}

async function step(count) {
  for (let i = 0; i < count; i += 1) await llama.run(tokens(1));
  return count;
}

async function prompt(count) {
  await llama.run(tokens(count));
  return count;
}

await prompt(64); // every expert was used, so the file is in memory
const prefill = await rate(() => {}, () => prompt(options.prompt));
const decode = await rate(() => prompt(options.context).then(() => step(1)), () => step(options.steps));
console.log(JSON.stringify({ prefill, decode }));
await llama.close();
