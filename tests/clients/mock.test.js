// weir-loadtest mock: the wire of a replica, and each of its faults as bytes on a socket.
import assert from 'node:assert/strict';
import {execFile} from 'node:child_process';
import {after, before, describe, test} from 'node:test';

import {Tool} from './support/loadtest.js';
import {Raw, request} from './support/raw.js';
import {assertSchema} from './support/schemas.js';
import {readEvents, user} from './support/weir.js';

const CHAT = '/v1/chat/completions';
const TEXT = '/v1/completions';
const HELLO = {model: 'm', messages: [user('hello')]};
const tokens = (count) => Array.from({length: count}, (_, i) => ` tok${i}`).join('');
const delta = (event) => event.choices[0]?.delta.content ?? '';

// Keys that vLLM sends as null and OpenAI's schemas do not allow.
function openai(value) {
  const {prompt_logprobs: _1, kv_transfer_params: _2, prompt_token_ids: _3, usage, ...rest} = value;
  const choices = value.choices.map(({stop_reason: _4, token_ids: _5, logprobs, ...choice}) => ({
    ...choice,
    ...(value.object === 'chat.completion' ? {logprobs} : {}),
    ...(value.object === 'text_completion' ? {logprobs, finish_reason: choice.finish_reason ?? 'stop'} : {}),
  }));
  return {...rest, choices, ...(usage ? {usage} : {})};
}

const withMock = async (args, use) => {
  const mock = await Tool.start('mock', ...args);
  try {
    await use(mock);
  } finally {
    await mock.stop();
  }
};

describe('mock: the wire', {timeout: 60_000}, () => {
  let mock;
  before(async () => {
    mock = await Tool.start('mock', '--cached-share', '0.5');
  });
  after(() => mock.stop());

  test('chat answer', async () => {
    const answer = await (await mock.post(CHAT, {...HELLO, max_tokens: 3})).json();
    assertSchema('CreateChatCompletionResponse', openai(answer));
    assert.equal(answer.choices[0].message.content, tokens(3));
    assert.equal(answer.choices[0].finish_reason, 'length');
    assert.equal(answer.model, 'm');
    const {prompt_tokens: prompt, completion_tokens: completion, total_tokens: total} = answer.usage;
    assert.deepEqual([completion, total], [3, prompt + 3]);
    assert.equal(answer.usage.prompt_tokens_details.cached_tokens, Math.floor(prompt / 2));
  });

  test('chat chunks', async () => {
    const asked = {...HELLO, max_completion_tokens: 3, stream: true};
    const events = await readEvents(await mock.post(CHAT, {...asked, stream_options: {include_usage: true}}));
    for (const event of events) assertSchema('CreateChatCompletionStreamResponse', openai(event));
    assert.deepEqual(events[0].choices[0].delta, {role: 'assistant', content: ''});
    assert.equal(events.map(delta).join(''), tokens(3));
    assert.equal(events.at(-2).choices[0].finish_reason, 'length');
    assert.deepEqual(events.at(-1).choices, []);
    assert.equal(events.at(-1).usage.completion_tokens, 3);
    assert.ok(events.slice(0, -1).every((event) => !('usage' in event)));
    const plain = await readEvents(await mock.post(CHAT, asked));
    assert.equal(plain.length, events.length - 1);
    assert.notEqual(plain[0].id, events[0].id);
  });

  test('completion answer and chunks', async () => {
    const answer = await (await mock.post(TEXT, {model: 'm', prompt: 'x'})).json();
    assertSchema('CreateCompletionResponse', openai(answer));
    assert.equal(answer.choices[0].text, tokens(16));
    assert.equal(answer.choices[0].finish_reason, 'stop');
    const events = await readEvents(
      await mock.post(TEXT, {model: 'm', prompt: 'x', stream: true, stream_options: {include_usage: true}}),
    );
    for (const event of events) assertSchema('CreateCompletionResponse', openai(event));
    assert.equal(events.map((event) => event.choices[0]?.text ?? '').join(''), tokens(16));
    assert.deepEqual(events.at(-1).choices, []);
  });

  test('models, health, unknown paths and bad requests', async () => {
    const {data} = await (await fetch(`${mock.url}/v1/models`)).json();
    assert.deepEqual([data[0].id, data[0].max_model_len], ['mock', 131072]);
    assert.equal((await fetch(`${mock.url}/v1/models/mock`)).status, 200);
    assert.equal((await fetch(`${mock.url}/health`)).status, 200);
    assert.equal((await fetch(`${mock.url}/absent`)).status, 404);
    assert.equal((await fetch(`${mock.url}${CHAT}`)).status, 405);
    for (const body of [[], {}, {...HELLO, n: 2}, {...HELLO, mock_fault: 'absent'}]) {
      const refused = await mock.post(CHAT, body);
      assert.equal(refused.status, 400);
      assert.equal((await refused.json()).error.code, 400);
    }
  });

  test('pipelined requests are answered in order, chunked bodies and 100-continue are taken', async () => {
    const raw = await Raw.connect(mock.url);
    raw.send(request({...HELLO, max_tokens: 1}, {route: CHAT}));
    raw.send(request({...HELLO, max_tokens: 2, stream: true}, {route: CHAT}));
    const body = JSON.stringify({prompt: 'x', max_tokens: 3});
    raw.send(
      `POST ${TEXT} HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ntransfer-encoding: chunked\r\n\r\n`,
    );
    assert.equal(JSON.parse((await raw.response()).body).usage.completion_tokens, 1);
    assert.match(String((await raw.response()).body), / tok1.*\[DONE\]/s);
    assert.equal((await raw.response()).status, 100);
    raw.send(`${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`);
    assert.equal(JSON.parse((await raw.response()).body).usage.completion_tokens, 3);
    raw.drop();
  });

  test('what breaks HTTP is answered 400, counted and closed', async () => {
    const before = await mock.metric('mock_malformed_requests_total');
    const raw = await Raw.connect(mock.url);
    raw.send('GET / HTTP/1.1\nhost: a\n\n');
    assert.match(String(await raw.toEnd()), /^HTTP\/1.1 400 .*connection: close/s);
    assert.equal(await mock.metric('mock_malformed_requests_total'), before + 1);
  });
});

describe('mock: options', {timeout: 60_000}, () => {
  test('an echo brings the prompt back', () =>
    withMock(['--echo', '--token-bytes', '5'], async (mock) => {
      const text = 'nonce-0123456789 "quoted" \n漢字 😀';
      const answer = await (await mock.post(CHAT, {messages: [user('no'), user(text)]})).json();
      assert.equal(answer.choices[0].message.content, text);
      const events = await readEvents(await mock.post(CHAT, {messages: [user(text)], stream: true}));
      assert.equal(events.map(delta).join(''), text);
    }));

  test('a key and a model name are asked for', () =>
    withMock(['--api-key', 'k', '--strict-model', '--model', 'm'], async (mock) => {
      const key = {authorization: 'Bearer k'};
      assert.equal((await mock.post(CHAT, HELLO)).status, 401);
      assert.equal((await mock.post(CHAT, HELLO, {authorization: 'Bearer kk'})).status, 401);
      assert.equal((await mock.post(CHAT, HELLO, key)).status, 200);
      const absent = await mock.post(CHAT, {...HELLO, model: 'x'}, key);
      assert.equal(absent.status, 404);
      assert.equal((await absent.json()).error.type, 'NotFoundError');
      assert.equal((await fetch(`${mock.url}/health`)).status, 200);
    }));

  test('threads share the port, sizes are kept', () =>
    withMock(['--threads', '3', '--reply-bytes', '5000', '--token-bytes', '9', '--burst', '8'], async (mock) => {
      const answers = Array.from({length: 30}, async () => (await mock.post(CHAT, HELLO)).json());
      const ids = new Set();
      for (const answer of await Promise.all(answers)) {
        assert.equal(answer.choices[0].message.content.length, 5000);
        ids.add(answer.id);
      }
      assert.equal(ids.size, 30);
      const labels = 'engine="0",model_name="mock",finished_reason="stop"';
      assert.equal(await mock.metric(`vllm:request_success_total{${labels}}`), 30);
    }));

  test('an idle connection is closed', () =>
    withMock(['--keep-alive-ms', '1'], async (mock) => {
      const raw = await Raw.connect(mock.url);
      raw.send(request(HELLO, {route: CHAT}));
      assert.equal((await raw.response()).status, 200);
      assert.equal((await raw.toEnd()).length, 0);
    }));

  for (const [name, args, body] of [
    ['before the first token', ['--ttft-ms', '600000'], {...HELLO, stream: true}],
    ['of an answer that is no stream', ['--ttft-ms', '600000'], HELLO],
    ['between tokens', ['--itl-ms', '600000'], {...HELLO, stream: true}],
    ['during a stall', ['--fault', 'stall-mid-stream'], {...HELLO, stream: true}],
    ['of a client that does not read', [], {...HELLO, stream: true, max_tokens: 1_000_000}],
  ]) {
    for (const leave of ['drop', 'reset']) {
      test(`a client gone ${name} is noticed: ${leave}`, () =>
        withMock(args, async (mock) => {
          const raw = await Raw.connect(mock.url);
          if (body.max_tokens) raw.socket.pause();
          raw.send(request(body, {route: CHAT}));
          await mock.untilMetric('vllm:num_requests_running', 1);
          raw[leave]();
          await mock.untilMetric('mock_aborted_total', 1);
          assert.equal(await mock.metric('vllm:num_requests_running'), 0);
        }));
    }
  }

  test('bad arguments end with 2 and say so', async () => {
    for (const [args, said] of [
      [['--listen', 'nowhere'], /ADDRESS:PORT/],
      [['--fault', 'absent'], /names no fault/],
      [['--fault', 'no-done:0.6', '--fault', 'status-500:0.6'], /sum/],
    ]) {
      await new Promise((resolve) =>
        execFile(process.env.WEIR_LOADTEST_BIN, ['mock', ...args], (error, _, err) => {
          assert.equal(error.code, 2);
          assert.match(err, said);
          resolve();
        }),
      );
    }
  });
});

describe('mock: faults', {timeout: 60_000}, () => {
  let mock;
  before(async () => {
    // Node reports a reset that comes together with bytes as an end, so bytes come before.
    mock = await Tool.start('mock', '--tokens', '4', '--itl-ms', '10');
  });
  after(() => mock.stop());

  // All bytes until the connection ends, or until `text` where it stays open.
  const bytesOf = async (fault, stream, text) => {
    const raw = await Raw.connect(mock.url);
    let reset = false;
    raw.socket.on('error', (error) => {
      reset = error.code === 'ECONNRESET';
    });
    raw.send(request({...HELLO, stream, mock_fault: fault}, {route: CHAT}));
    const open = text !== undefined && (await raw.untilText(text));
    if (!open) await raw.toEnd();
    raw.drop();
    return {bytes: raw.bytes.toString('latin1'), reset, open};
  };
  const HALF = / tok1"(?!.* tok2)/s;

  for (const [fault, stream, text, says, reset = false] of [
    ['reset-before-head', true, undefined, /^$/, true],
    ['reset-before-head', false, undefined, /^$/, true],
    ['reset-mid-stream', true, undefined, HALF, true],
    ['reset-mid-stream', false, undefined, /^HTTP\/1.1 200 .*chat.completion(?!.*kv_transfer)/s, null],
    ['close-mid-stream', true, undefined, HALF],
    ['close-mid-stream', false, undefined, /^HTTP\/1.1 200 .*chat.completion(?!.*kv_transfer)/s],
    ['stall-mid-stream', true, ' tok1', HALF],
    ['error-event-first', true, '0\r\n\r\n', /data: {"error":(?!.* tok0).*data: \[DONE\]\n\n\r\n0\r\n\r\n$/s],
    ['error-event-mid', true, '0\r\n\r\n', / tok1.*data: {"error":(?!.* tok2).*\[DONE\]\n\n\r\n0\r\n\r\n$/s],
    ['garbage-event', true, '0\r\n\r\n', / tok1.*\xff\xfe.* tok2.* tok3.*\[DONE\]\n\n\r\n0\r\n\r\n$/s],
    ['half-event-then-close', true, undefined, / tok1(?!.* tok2).*\r\n[0-9a-f]+\r\ndata: {"id":"chatcmpl[^\n]*\r\n$/s],
    ['extra-bytes', true, 'extra', /\[DONE\]\n\n\r\n0\r\n\r\nHTTP\/1.1 200 OK\r\n.*extra$/s],
    ['extra-bytes', false, 'extra', /}HTTP\/1.1 200 OK\r\n.*extra$/s],
    ['short-body', true, undefined, /64\r\ndata: \[DO$/],
    ['no-done', true, '0\r\n\r\n', /"finish_reason":"stop"(?!.*DONE).*\r\n0\r\n\r\n$/s],
    ['keepalive-close', true, undefined, /^(?!.*connection:).*\[DONE\]\n\n\r\n0\r\n\r\n$/s],
    ['keepalive-close', false, undefined, /^(?!.*connection:).*kv_transfer_params":null}$/s],
  ]) {
    test(`${fault}, ${stream ? 'stream' : 'no stream'}`, async () => {
      const got = await bytesOf(fault, stream, text);
      assert.match(got.bytes, says);
      if (reset !== null) assert.equal(got.reset, reset);
      assert.equal(got.open, text !== undefined);
    });
  }

  test('short-body, no stream', async () => {
    const {bytes} = await bytesOf('short-body', false);
    const [head, body] = bytes.split('\r\n\r\n');
    assert.equal(Number(/content-length: (\d+)/.exec(head)[1]), body.length + 100);
  });

  test('stall-before-head sends nothing and notices the client leave', async () => {
    const before = await mock.metric('mock_aborted_total');
    const raw = await Raw.connect(mock.url);
    raw.send(request({...HELLO, stream: true, mock_fault: 'stall-before-head'}, {route: CHAT}));
    await mock.untilMetric('vllm:num_requests_running', 1);
    assert.equal(raw.bytes.length, 0);
    raw.drop();
    await mock.untilMetric('mock_aborted_total', before + 1);
  });

  for (const status of [500, 503, 429]) {
    test(`status-${status}`, async () => {
      const response = await mock.post(CHAT, HELLO, {'x-mock-fault': `status-${status}`});
      assert.equal(response.status, status);
      assert.equal((await response.json()).error.code, status);
      assert.equal(response.headers.get('retry-after'), status === 429 ? '1' : null);
    });
  }

  test('shares are drawn from the seed; a request may be exempt', () =>
    withMock(['--fault', 'status-500:0.3', '--seed', '7'], async (faulty) => {
      let failed = 0;
      for (let i = 0; i < 100; ++i) failed += (await faulty.post(CHAT, HELLO)).status === 500;
      assert.ok(failed > 15 && failed < 45, `${failed} of 100 failed`);
      assert.equal(await faulty.metric('mock_faults_total'), failed);
      for (let i = 0; i < 20; ++i)
        assert.equal((await faulty.post(CHAT, {...HELLO, mock_fault: 'none'})).status, 200);
    }));
});
