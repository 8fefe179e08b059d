// A model in llama.cpp, driven by token ids. One context with one sequence, as a client that generates one answer has it.
import { getLlama } from 'node-llama-cpp';

const BATCH = 512; // tokens that it takes in at once

export class Llama {
  // `exact`: caches in float32 and attention as plain products, for comparisons; without, what is fastest.
  static async open(modelPath, { threads = 1, contextSize = 1024, exact = false, flash = 'auto' } = {}) {
    const llama = await getLlama({ gpu: false, build: 'never', maxThreads: threads, logLevel: 'error' });
    const model = await llama.loadModel({ modelPath, gpuLayers: 0 });
    const context = await model.createContext({
      contextSize,
      batchSize: BATCH,
      threads: { ideal: threads, min: threads },
      flashAttention: exact ? false : flash,
      ...(exact && { experimentalKvCacheKeyType: 'F32', experimentalKvCacheValueType: 'F32' }),
    });
    return Object.assign(new Llama(), { llama, sequence: context.getSequence() });
  }

  restart() {
    return this.sequence.clearHistory();
  }

  // Takes the tokens in. Returns a map of logits after the last of them, largest first: the largest and those of `wanted`.
  async run(tokens, wanted = []) {
    const logits = { filter: { tokens: wanted, includeTop: 1 } };
    const input = [...tokens.slice(0, -1), [tokens.at(-1), { generateNext: { logits } }]];
    const outputs = await this.sequence.controlledEvaluate(input);
    return outputs.at(-1).next.logits;
  }

  close() {
    return this.llama.dispose();
  }
}

// Follows what `weir_gguf greedy` printed, step by step, whatever llama.cpp would have said itself: each step is compared
// with the same tokens before it, and where all are equal its own continuation is ours.
// Returns the steps, those whose largest logit is of another token with our margin there, and the largest distance of logits.
export async function follow(llama, cases) {
  const out = { steps: 0, others: [], distance: 0 };
  for (const c of cases) {
    await llama.restart();
    let next = c.prompt;
    for (const [step, token] of c.greedy.entries()) {
      const ours = new Map(c.top[step]);
      const theirs = await llama.run(next, [...ours.keys()]);
      const [best] = theirs.keys();
      out.steps += 1;
      if (best !== token) {
        out.others.push({ prompt: c.prompt.length, step, ours: token, theirs: best, margin: c.greedy_margin[step] });
      }
      for (const [id, logit] of ours) {
        const gap = Math.abs(theirs.get(id) - logit);
        if (!(gap <= out.distance)) out.distance = gap; // NaN stays
      }
      next = [token];
    }
  }
  return out;
}

// Numbers in [0, limit), the same from the same seed.
export function randomTokens(seed, count, limit) {
  let state = seed >>> 0;
  return Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  });
}
