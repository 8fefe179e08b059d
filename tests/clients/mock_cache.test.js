// weir-loadtest mock as a replica in earnest: what it says of its cache, its queue and its load.
import assert from 'node:assert/strict';
import {describe, test} from 'node:test';

import {Tool} from './support/loadtest.js';
import {readEvents, user} from './support/weir.js';

const CHAT = '/v1/chat/completions';
const TEXT = '/v1/completions';
const HYBRID = ['--block-tokens', '10', '--capacity-tokens', '10000', '--checkpoint-tokens', '50'];
const count = (from, to) => Array.from({length: to - from}, (_, i) => from + i);
const fork = (at) => [...count(0, at), ...count(5_000 + at, 5_101)];

const withMock = async (args, use) => {
  const mock = await Tool.start('mock', '--tokens', '2', ...args);
  try {
    await use(mock);
  } finally {
    await mock.stop();
  }
};

const usage = async (mock, body, route = TEXT) => {
  const answer = await mock.post(route, {model: 'm', ...body});
  assert.equal(answer.status, 200, await answer.clone().text());
  return (await answer.json()).usage;
};
const cached = async (mock, body, route) => {
  const {prompt_tokens_details: details} = await usage(mock, body, route);
  return details.cached_tokens;
};

describe('mock: a cache that is true', {timeout: 60_000}, () => {
  test('each retention keeps its checkpoints', async () => {
    // One prompt, a second and a third that part from it at 50 tokens, and the first again.
    const prompts = [count(0, 101), fork(50), [...count(0, 50), ...count(9_000, 9_051)], count(0, 101)];
    const rows = {
      dense: [0, 50, 50, 100],
      'prompt-end': [0, 0, 0, 100],
      'second-sighting': [0, 0, 50, 100],
      'interval:20': [0, 40, 50, 100],
      value: [0, 0, 50, 100],
    };
    for (const [retention, expected] of Object.entries(rows)) {
      await withMock([...HYBRID, '--retention', retention], async (mock) => {
        const got = [];
        for (const prompt of prompts) got.push(await cached(mock, {prompt}));
        assert.deepEqual(got, expected, retention);
      });
    }
  });

  test('hints count where they are accepted', async () => {
    for (const [flags, expected] of [
      [[], 0],
      [['--accept-hints'], 40],
    ]) {
      await withMock([...HYBRID, '--retention', 'prompt-end', ...flags], async (mock) => {
        assert.equal(await cached(mock, {prompt: count(0, 101), weir_checkpoint_at: [45, 99_999]}), 0);
        assert.equal(await cached(mock, {prompt: fork(50)}), expected);
      });
    }
  });

  test('salts keep caches apart; a reset empties all', async () => {
    await withMock(HYBRID, async (mock) => {
      const prompt = count(0, 101);
      assert.equal(await cached(mock, {prompt, cache_salt: 'a'}), 0);
      assert.equal(await cached(mock, {prompt, cache_salt: 'b'}), 0);
      assert.equal(await cached(mock, {prompt}), 0);
      assert.equal(await cached(mock, {prompt, cache_salt: 'a'}), 100);
      assert.equal((await mock.post('/reset_prefix_cache', {})).status, 200);
      assert.equal(await cached(mock, {prompt, cache_salt: 'a'}), 0);
    });
  });

  test('what does not fit is evicted, the oldest first', async () => {
    await withMock(['--block-tokens', '10', '--capacity-tokens', '200'], async (mock) => {
      await cached(mock, {prompt: count(0, 101)});
      await cached(mock, {prompt: count(1_000, 1_101)});
      assert.equal(await cached(mock, {prompt: count(0, 101)}), 100);
      await cached(mock, {prompt: count(2_000, 2_101)});
      assert.equal(await cached(mock, {prompt: count(1_000, 1_101)}), 0);
    });
  });

  test("a chat's turns continue one another, four bytes a token", async () => {
    await withMock(['--block-tokens', '4'], async (mock) => {
      const messages = [user('x'.repeat(74))];
      const first = await usage(mock, {messages}, CHAT);
      assert.equal(first.prompt_tokens, 20); // "user\n", 74 bytes, "\n"
      assert.equal(first.prompt_tokens_details.cached_tokens, 0);
      const more = [...messages, {role: 'assistant', content: 'tok0'}, user('and?')];
      const second = await usage(mock, {messages: more}, CHAT);
      assert.equal(second.prompt_tokens, Math.ceil((80 + 15 + 10) / 4));
      assert.equal(second.prompt_tokens_details.cached_tokens, 16);
    });
  });

  test('a stream tells it too', async () => {
    await withMock(HYBRID, async (mock) => {
      const asked = {model: 'm', prompt: count(0, 101), stream: true, stream_options: {include_usage: true}};
      for (const expected of [0, 100]) {
        const events = await readEvents(await mock.post(TEXT, asked));
        assert.deepEqual(events.at(-1).usage.prompt_tokens_details, {cached_tokens: expected});
        assert.equal(events.at(-1).usage.prompt_tokens, 101);
      }
    });
  });

  test('what is no prompt, or too long a one, is refused', async () => {
    await withMock([...HYBRID, '--context', '100'], async (mock) => {
      for (const prompt of [[], [-1], [2 ** 31], [1.5], [[1]], '', count(0, 101)])
        assert.equal((await mock.post(TEXT, {model: 'm', prompt})).status, 400, JSON.stringify(prompt));
      assert.equal((await mock.post(TEXT, {model: 'm', prompt: count(0, 100)})).status, 200);
    });
  });
});

describe('mock: a queue that is true', {timeout: 60_000}, () => {
  test('the load is told in the names of vLLM', async () => {
    await withMock([...HYBRID, '--batch', '1', '--prefill-tokens-per-s', '100'], async (mock) => {
      const stop = new AbortController();
      const ask = (prompt) =>
        fetch(`${mock.url}${TEXT}`, {
          method: 'POST',
          signal: stop.signal,
          body: JSON.stringify({model: 'm', prompt}),
        }).catch(() => {});
      const asked = [ask(count(0, 5_000))];
      await mock.untilMetric('vllm:num_requests_running', 1);
      asked.push(ask(count(1, 2_001)), ask(count(2, 1_002)));
      await mock.untilMetric('vllm:num_requests_waiting', 2);
      assert.equal(await mock.metric('vllm:num_requests_running'), 1);
      assert.equal(await mock.metric('vllm:kv_cache_usage_perc'), 0.5);
      assert.equal(await mock.metric('vllm:prefix_cache_queries_total'), 5_000);
      const text = await (await fetch(`${mock.url}/metrics`)).text();
      assert.match(text, /vllm:cache_config_info\{[^}]*block_size="10"[^}]*num_gpu_blocks="1000"[^}]*\} 1/);
      stop.abort();
      await Promise.all(asked);
      await mock.untilMetric('vllm:num_requests_running', 0);
      await mock.untilMetric('vllm:num_requests_waiting', 0);
      assert.equal(await mock.metric('vllm:prefix_cache_hits_total'), 0);
    });
  });

  test('and of SGLang', async () => {
    await withMock([...HYBRID, '--flavor', 'sglang', '--batch', '7'], async (mock) => {
      await cached(mock, {prompt: count(0, 101)});
      assert.equal(await cached(mock, {prompt: count(0, 101)}), 100);
      assert.equal(await mock.metric('sglang:cached_tokens_total'), 100);
      assert.equal(await mock.metric('sglang:num_running_reqs'), 0);
      assert.equal(await mock.metric('sglang:num_queue_reqs'), 0);
      const text = await (await fetch(`${mock.url}/metrics`)).text();
      assert.match(text, /sglang:cache_config_info\{[^}]*page_size="10"[^}]*num_pages="1000"[^}]*\} 1/);
      assert.ok(!text.includes('vllm:'));
      const {loads} = await (await fetch(`${mock.url}/v1/loads?include=core`)).json();
      assert.equal(loads.length, 1);
      assert.equal(loads[0].max_total_num_tokens, 10_000);
      assert.equal(loads[0].max_running_requests, 7);
      assert.equal(loads[0].num_waiting_uncached_tokens, 0);
      assert.equal(loads[0].cache_hit_rate, 0.495);
      assert.equal((await mock.post('/flush_cache', {})).status, 200);
      assert.equal(await cached(mock, {prompt: count(0, 101)}), 0);
    });
  });

  test('a client that goes away leaves its place', async () => {
    await withMock([...HYBRID, '--prefill-tokens-per-s', '10', '--threads', '2'], async (mock) => {
      const stop = new AbortController();
      const body = JSON.stringify({model: 'm', prompt: count(0, 5_000)});
      const gone = fetch(`${mock.url}${TEXT}`, {method: 'POST', body, signal: stop.signal}).catch(() => {});
      await mock.untilMetric('vllm:num_requests_running', 1);
      const next = usage(mock, {prompt: count(7_000, 7_002)});
      await mock.untilMetric('vllm:num_requests_waiting', 1);
      stop.abort();
      await gone;
      assert.equal((await next).prompt_tokens_details.cached_tokens, 0);
    });
  });
});
