// What streams say: tool-call deltas pass as they are, usage is the upstream's and comes when the client
// asked. Ids are those of reported faults in other gateways.
import assert from 'node:assert/strict';
import {after, before, describe, test} from 'node:test';

import {COMPLETIONS, ask} from './support/client.js';
import {
  ALIAS,
  NAME,
  assertAdds,
  assertFailed,
  assertInterrupted,
  assertStream,
  attempts,
  counts,
  logLine,
  startRelay,
  streamBody,
  target,
  wholeStreamBody,
} from './support/relay.js';
import * as up from './support/upstream.js';
import {user} from './support/weir.js';

let upstream;
let weir;
before(async () => {
  upstream = await up.Upstream.start();
  weir = await startRelay([target(upstream)]);
});
after(async () => {
  await weir.stop();
  await upstream.stop();
});

const payloadOf = (events) => events.map((value) => up.event(value)).join('');
const isUsage = (value) => value !== '[DONE]' && value.choices.length === 0 && value.usage;
const withoutUsage = (events) => payloadOf(events.filter((value) => !isUsage(value)));

// Streams these events to a client that sends `fields`; the reply.
async function streamed(events, fields = {}, options = {}) {
  upstream.script(up.replies(up.sse(events)));
  return ask(weir, typeof fields === 'string' ? fields : streamBody(fields), options);
}

const call = (fields) => up.delta({tool_calls: [fields]});
const named = (index, id, name) => call({index, id, type: 'function', function: {name, arguments: ''}});
const END = [up.delta({}, 'tool_calls'), up.usageEvent(10, 4), '[DONE]'];

describe('tool-call deltas', {timeout: 60_000}, () => {
  const cases = {
    'C1 follow-up deltas without id': [
      named(0, 'call_1', 'search_x'),
      call({index: 0, function: {arguments: '{"q":'}}),
      call({index: 0, function: {arguments: '"a"}'}}),
    ],
    'C2 two parallel calls interleaved': [
      named(0, 'call_1', 'search_x'),
      named(1, 'call_2', 'search_x'),
      call({index: 0, function: {arguments: '{"q":'}}),
      call({index: 1, function: {arguments: '{"r":'}}),
      call({index: 0, function: {arguments: '1}'}}),
      call({index: 1, function: {arguments: '2}'}}),
    ],
    'C2 both in one delta': [
      up.delta({
        tool_calls: [
          {index: 1, id: 'b', type: 'function', function: {name: 'g', arguments: '{}'}},
          {index: 0, id: 'a', type: 'function', function: {name: 'f', arguments: '{}'}},
        ],
      }),
    ],
    'C4 index missing': [
      call({id: 'call_1', type: 'function', function: {name: 'f', arguments: ''}}),
      call({function: {arguments: '{"a":1}'}}),
    ],
    'a whole call in one delta, its name again in the next': [
      call({index: 0, id: 'a', type: 'function', function: {name: 'f', arguments: '{'}}),
      call({index: 0, id: 'a', function: {name: 'f', arguments: '}'}}),
    ],
    'the old function_call': [up.delta({function_call: {name: 'f', arguments: '{}'}})],
  };
  for (const [name, deltas] of Object.entries(cases)) {
    test(name, async () => {
      const events = [up.PREAMBLE, ...deltas, ...END];
      assertStream(await streamed(events), withoutUsage(events));
      assertStream(await streamed(events, {stream_options: {include_usage: true}}), payloadOf(events));
    });
  }

  test('I4 reasoning and reasoning_content in deltas survive, both', async () => {
    const events = [
      up.PREAMBLE,
      up.delta({reasoning: 'a'}),
      up.delta({reasoning_content: 'b'}),
      up.delta({reasoning: 'c', reasoning_content: 'c', vendor_field: {deep: [1, {x: null}]}}),
      ...up.chatEvents(['d']).slice(1),
    ];
    assertStream(await streamed(events), withoutUsage(events));
  });
});

describe('usage', {timeout: 60_000}, () => {
  const sentUpstream = () => JSON.parse(upstream.requests[0].body);

  test('D1 a completion stream with include_usage: the last chunk carries usage', async () => {
    const events = up.textEvents();
    const body = {model: NAME, prompt: 'x', stream: true, stream_options: {include_usage: true}};
    const reply = await streamed(events, JSON.stringify(body), {route: COMPLETIONS});
    assertStream(reply, payloadOf(events));
    assert.deepEqual(events.at(-2).usage, {prompt_tokens: 9, completion_tokens: 2, total_tokens: 11});
    assert.equal((await logLine(weir, reply)).prompt_tokens, 9);
  });

  test('D1 a completion stream without it: no usage, but counted', async () => {
    const events = up.textEvents();
    const body = {model: NAME, prompt: 'x', stream: true};
    const reply = await streamed(events, JSON.stringify(body), {route: COMPLETIONS});
    assertStream(reply, withoutUsage(events));
    assert.equal((await logLine(weir, reply)).completion_tokens, 2);
  });

  test('D2 the usage chunk has choices: [] exactly', async () => {
    const reply = await streamed(up.chatEvents(), {stream_options: {include_usage: true}});
    const values = reply.text.split('\n\n').filter((line) => line.startsWith('data: {'));
    const last = JSON.parse(values.at(-1).slice(6));
    assert.deepEqual(last.choices, []);
    assert.equal(last.usage.prompt_tokens, 12);
  });

  test('D4 usage of the upstream is relayed and counted, never recounted', async () => {
    const events = [
      up.PREAMBLE,
      up.delta({content: 'one'}),
      up.delta({}, 'stop'),
      up.usageEvent(2852, 777),
      '[DONE]',
    ];
    const tokens = () => counts(weir, 'weir_tokens_total', 'kind');
    const reply = await assertAdds(tokens, {prompt: 2852, completion: 777}, () =>
      streamed(events, {stream_options: {include_usage: true}}),
    );
    assertStream(reply, payloadOf(events));
    const line = await logLine(weir, reply);
    assert.deepEqual([line.prompt_tokens, line.completion_tokens], [2852, 777]);
  });

  test('D4 usage of a whole reply too', async () => {
    const usage = {prompt_tokens: 3001, completion_tokens: 5, total_tokens: 3006};
    upstream.script(up.replies(up.jsonReply(up.chatReply('a', {usage}))));
    const reply = await ask(weir, {model: NAME, messages: [user('x')]});
    assert.deepEqual(reply.json.usage, usage);
    const line = await logLine(weir, reply);
    assert.deepEqual([line.prompt_tokens, line.completion_tokens], [3001, 5]);
  });

  const asks = {
    'no stream_options': [{}, {include_usage: true}],
    'stream_options null': [{stream_options: null}, {include_usage: true}],
    'stream_options empty': [{stream_options: {}}, {include_usage: true}],
    'include_usage false': [{stream_options: {include_usage: false}}, {include_usage: true}],
    'include_usage null': [{stream_options: {include_usage: null}}, {include_usage: true}],
    'others of stream_options': [
      {stream_options: {include_obfuscation: false, vendor: [1]}},
      {include_obfuscation: false, vendor: [1], include_usage: true},
    ],
  };
  for (const [name, [fields, expected]] of Object.entries(asks)) {
    test(`D5 ${name}: usage is asked for upstream, its chunk stripped, the tokens counted`, async () => {
      const events = up.chatEvents();
      const reply = await streamed(events, {top_k: 3, ...fields, after: true});
      assertStream(reply, withoutUsage(events));
      const {stream_options: options, ...rest} = sentUpstream();
      assert.deepEqual(options, expected);
      const {stream_options: _, ...sent} = streamBody({top_k: 3, ...fields, after: true});
      assert.deepEqual(rest, sent);
      assert.equal((await logLine(weir, reply)).completion_tokens, 5);
    });
  }

  test('D5 everything but include_usage keeps its bytes, even where the model name changes', async () => {
    const text = (model, options) =>
      `{ "a" : 1.50e+3 ,"model"\t:"${model}","stream":true,` +
      '"messages":[{"role":"user","content":"\\u00e9\\/"}],' +
      `"n_big":12345678901234567890${options}, "stream_options_x":"include_usage"}`;
    const reply = await streamed(
      up.chatEvents(),
      text(ALIAS, ',"stream_options":{ "include_usage" : false }'),
    );
    assertStream(reply, withoutUsage(up.chatEvents()));
    const sent = String(upstream.requests[0].body);
    const without = sent.replace(/\s*"include_usage"\s*:\s*true\s*/, '"include_usage":true');
    assert.equal(
      without.replaceAll(' ', ''),
      text(NAME, ',"stream_options":{"include_usage":true}').replaceAll(' ', ''),
    );
  });

  test('D5 a client that asked gets its body through unchanged', async () => {
    const text =
      `{"model":"${NAME}", "stream": true, "stream_options":{ "include_usage" : true },` +
      '"messages":[{"role":"user","content":"x"}]}';
    assertStream(await streamed(up.chatEvents(), text), payloadOf(up.chatEvents()));
    assert.equal(String(upstream.requests[0].body), text);
  });

  test('D5 a whole request gets no stream_options', async () => {
    upstream.script(up.replies(up.jsonReply(up.chatReply())));
    await ask(weir, {model: NAME, messages: [user('x')]});
    assert.ok(!('stream_options' in sentUpstream()));
  });

  const partial = (value, completion) => ({
    ...value,
    usage: {prompt_tokens: 10, completion_tokens: completion, total_tokens: 10 + completion},
  });
  for (const asked of [true, false]) {
    test(`D9 usage on every chunk is a report, not an end; the last counts (asked: ${asked})`, async () => {
      const events = [
        partial(up.PREAMBLE, 0),
        partial(named(0, 'call_1', 'f'), 1),
        partial(call({index: 0, function: {arguments: '{"city":"Rome"}'}}), 2),
        partial(up.delta({}, 'tool_calls'), 3),
        up.usageEvent(10, 4),
        '[DONE]',
      ];
      const reply = await streamed(events, asked ? {stream_options: {include_usage: true}} : {});
      assertStream(reply, asked ? payloadOf(events) : withoutUsage(events));
      const line = await logLine(weir, reply);
      assert.deepEqual([line.prompt_tokens, line.completion_tokens], [10, 4]);
    });
  }

  test('usage in the chunk of finish_reason stays, even for a client that did not ask', async () => {
    const events = [up.PREAMBLE, up.delta({content: 'a'}), partial(up.delta({}, 'stop'), 1), '[DONE]'];
    assertStream(await streamed(events), payloadOf(events));
  });
});

describe('nonsense in a stream', {timeout: 60_000}, () => {
  const begin = [up.PREAMBLE, up.delta({content: 'a'})];
  const raw = (text) => (request, socket) => {
    socket.write(up.head(200, {...up.SSE_FIELDS, 'transfer-encoding': 'chunked'}));
    socket.write(up.chunk(text));
  };

  for (const [name, text] of Object.entries({
    'data that is not JSON': 'data: {"choices":[\n\n',
    'data that is HTML': 'data: <html>\n\n',
    'data that is no UTF-8': Buffer.from(
      'data: {"choices":[{"delta":{"content":"\xff\xfe"}}]}\n\n',
      'latin1',
    ),
  })) {
    test(`${name}, after the first content: one error event, no clean end`, async () => {
      const payload = payloadOf(begin);
      upstream.script(raw(Buffer.concat([Buffer.from(payload), Buffer.from(text)])));
      const reply = await assertAdds(
        () => attempts(weir),
        {broken: 1},
        () => ask(weir, wholeStreamBody()),
      );
      assertInterrupted(reply, payload);
      await up.closing(upstream.requests[0]);
    });
    test(`${name}, before the first content: 502`, async () => {
      upstream.script(raw(text));
      assertFailed(await ask(weir, wholeStreamBody()), 502, 'upstream_failed');
      await up.closing(upstream.requests[0]);
    });
  }

  test('a stream that ends with neither finish_reason nor [DONE]', async () => {
    upstream.script(up.replies(up.sse(begin)));
    assertInterrupted(await ask(weir, wholeStreamBody()), payloadOf(begin));
  });

  test('a stream with finish_reason but without [DONE] ends cleanly', async () => {
    const events = [...begin, up.delta({}, 'stop')];
    upstream.script(up.replies(up.sse(events)));
    const reply = await ask(weir, wholeStreamBody());
    assertStream(reply, reply.text.includes('[DONE]') ? payloadOf([...events, '[DONE]']) : payloadOf(events));
  });

  const failures = {
    'code 400': [{error: {message: 'bad prompt', type: 'BadRequestError', param: null, code: 400}}, 400],
    'code 429': [{error: {message: 'slow down', type: 'x', code: 429}}, 503],
    'code 503': [{error: {message: 'busy', type: 'x', code: 503}}, 503],
    'code 500': [{error: {message: 'oops', type: 'InternalServerError', param: null, code: 500}}, 502],
    'no code': [{error: {message: 'oops'}}, 502],
  };
  for (const [name, [value, status]] of Object.entries(failures)) {
    for (const prefix of ['', 'event: error\n']) {
      const form = prefix + up.event(value);
      const kind = prefix ? `${name}, named` : name;
      test(`an error event first (${kind}) has its status`, async () => {
        upstream.script(raw(up.event(up.PREAMBLE) + form));
        const error = assertFailed(await ask(weir, wholeStreamBody()), status);
        assert.ok(error.code === null || typeof error.code === 'string');
        if (status === 400) assert.equal(error.message, 'bad prompt');
      });
      test(`an error event after content (${kind}) is passed once, then the end is a cut`, async () => {
        upstream.script(raw(payloadOf(begin) + form + up.event('[DONE]')));
        const reply = await ask(weir, wholeStreamBody());
        assert.equal(reply.status, 200);
        assert.equal(reply.ended, 'aborted');
        assert.ok(reply.text.startsWith(payloadOf(begin)), reply.text);
        assert.ok(!reply.text.includes('[DONE]'));
        assert.equal(reply.text.split('"error":').length, 2, reply.text);
        assert.ok(reply.text.includes(value.error.message));
      });
    }
  }
});
