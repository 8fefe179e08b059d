// Large requests and replies: what fits the limits passes byte for byte, what does not is a JSON error. Ids
// are those of reported faults in other gateways.
import assert from 'node:assert/strict';
import {createHash} from 'node:crypto';
import {after, before, describe, test} from 'node:test';

import {CHAT, COMPLETIONS, Client, ask, start} from './support/client.js';
import {eventually} from './support/raw.js';
import {
  ALIAS,
  NAME,
  assertAdds,
  assertFailed,
  assertInterrupted,
  attempts,
  chatBody,
  startRelay,
  streamBody,
  target,
  wholeStreamBody,
  relayOf,
} from './support/relay.js';
import * as up from './support/upstream.js';

const REPLY_BYTES = 8 << 20;
const BODY_BYTES = 64 << 20;

let upstream;
let weir;
before(async () => {
  upstream = await up.Upstream.start();
  weir = await startRelay([target(upstream)], (config) => ({...config, limits: {reply_bytes: REPLY_BYTES}}));
});
after(async () => {
  await weir.stop();
  await upstream.stop();
});

const digest = (bytes) => createHash('sha256').update(bytes).digest('hex');

// A chat body of exactly `size` bytes; text that must survive as it is: escapes, spaces, big numbers.
function bodyOf(size, model = NAME) {
  const begin =
    `{"model": "${model}", "n_big": 12345678901234567890.50, ` +
    '"messages":[{"role":"user", "content":"\\u00e9\\n東京 ';
  const end = '"}] , "vendor" : {"a":1e+2,"b":2} }';
  const room = size - Buffer.byteLength(begin) - Buffer.byteLength(end);
  const text = 'The quick brown fox jumps over the lazy dog. '.repeat(Math.ceil(room / 45)).slice(0, room);
  return Buffer.from(begin + text + end);
}

const sizes = {
  'F5 32,768 B': 32_768,
  'F5 32,769 B': 32_769,
  'F7 128 KiB - 1': 131_071,
  'F7 128 KiB': 131_072,
  'F7 128 KiB + 1': 131_073,
  '220 KB': 220_000,
  '4 MB': 4_000_000,
  'F8 16,855,089 B': 16_855_089,
  'F9 64 MiB': BODY_BYTES,
};

describe('requests', {timeout: 300_000}, () => {
  for (const [name, size] of Object.entries(sizes)) {
    test(`${name} goes upstream unchanged`, async () => {
      upstream.script(up.replies(up.jsonReply(up.chatReply())));
      const body = bodyOf(size);
      assert.equal(body.length, size);
      const reply = await ask(weir, body);
      assert.equal(reply.status, 200, reply.text);
      assert.equal(digest(upstream.requests[0].body), digest(body));
    });
  }

  test('F8 with an alias only the model name changes', async () => {
    upstream.script(up.replies(up.jsonReply(up.chatReply())));
    const size = 16_855_089;
    const reply = await ask(weir, bodyOf(size, ALIAS));
    assert.equal(reply.status, 200, reply.text);
    const expected = String(bodyOf(size, ALIAS)).replace(`"${ALIAS}"`, `"${NAME}"`);
    assert.equal(digest(upstream.requests[0].body), digest(expected));
  });

  test('F9 over the limit: 413 as JSON, nothing upstream', async () => {
    upstream.script(up.replies(up.jsonReply(up.chatReply())));
    assertFailed(await ask(weir, bodyOf(BODY_BYTES + 1)), 413, 'request_too_large');
    assert.equal(upstream.requests.length, 0);
  });

  test('F8 the limit is configurable', async (t) => {
    const other = await relayOf(t, [target(upstream)], (config) => ({
      ...config,
      limits: {body_bytes: 100_000},
    }));
    upstream.script(up.replies(up.jsonReply(up.chatReply())));
    assert.equal((await ask(other, bodyOf(100_000))).status, 200);
    assertFailed(await ask(other, bodyOf(100_001)), 413, 'request_too_large');
  });

  test('a chunked request goes upstream with its length', async () => {
    upstream.script(up.replies(up.jsonReply(up.chatReply())));
    const body = bodyOf(200_000);
    const client = await Client.connect(weir.url);
    const answer = client.expect();
    client.socket.write(
      `POST ${CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n` +
        'transfer-encoding: chunked\r\n\r\n',
    );
    for (let at = 0; at < body.length; at += 7001)
      client.socket.write(up.chunk(body.subarray(at, at + 7001)));
    client.socket.write(up.LAST_CHUNK);
    await answer.end;
    assert.equal(answer.status, 200, answer.text);
    assert.equal(upstream.requests[0].headers['content-length'], String(body.length));
    assert.equal(digest(upstream.requests[0].body), digest(body));
    client.leave();
  });

  // The upstream answers at once and closes; what weir still sends is refused by a reset.
  for (const how of ['closes', 'reads on']) {
    test(`a 413 while the body is still being sent is passed on (the upstream ${how})`, async () => {
      upstream.script(() => {});
      upstream.early = (request) => {
        const error = {message: 'too large', type: 'BadRequestError', param: null, code: 413};
        request.socket.write(up.jsonReply({error}, {status: 413, fields: {connection: 'close'}}));
        if (how === 'closes') request.socket.pause().end();
        return true;
      };
      const reply = await assertAdds(
        () => attempts(weir),
        {client_error: 1},
        () => ask(weir, bodyOf(16 << 20)),
      );
      const error = assertFailed(reply, 413, '413');
      assert.equal(error.message, 'too large');
      upstream.connections.at(-1).socket.destroy();
    });
  }
});

describe('replies', {timeout: 300_000}, () => {
  // A JSON reply whose body has exactly `size` bytes.
  function replyOf(size) {
    const room = size - JSON.stringify(up.chatReply('')).length;
    const text = JSON.stringify(up.chatReply('x'.repeat(room)));
    assert.equal(text.length, size);
    return text;
  }

  for (const size of [1000, 16_384, 65_535, 65_536, 65_537, 220_000, 4_000_000, REPLY_BYTES]) {
    for (const framing of ['length', 'chunked', 'close']) {
      test(`${size} bytes, ${framing}, pass unchanged`, async () => {
        const body = replyOf(size);
        upstream.script((request, socket) => {
          if (framing === 'length') return void socket.write(up.jsonReply(body));
          const fields = {'content-type': 'application/json'};
          if (framing === 'close') return void socket.end(up.head(200, fields) + body);
          socket.write(up.head(200, {...fields, 'transfer-encoding': 'chunked'}));
          for (let at = 0; at < body.length; at += 10_007)
            socket.write(up.chunk(body.slice(at, at + 10_007)));
          socket.write(up.LAST_CHUNK);
        });
        const reply = await ask(weir, chatBody());
        assert.equal(reply.status, 200, reply.text.slice(0, 300));
        assert.equal(reply.ended, 'complete');
        assert.equal(digest(reply.body), digest(body));
      });
    }
  }

  for (const framing of ['length', 'chunked', 'close']) {
    test(`reply_bytes: a whole reply over it, ${framing}, is 502`, async () => {
      const body = 'x'.repeat(REPLY_BYTES + 1);
      upstream.script((request, socket) => {
        if (framing === 'length') return void socket.write(up.jsonReply(body));
        const fields = {'content-type': 'application/json'};
        if (framing === 'close') return void socket.end(up.head(200, fields) + body);
        socket.write(up.head(200, {...fields, 'transfer-encoding': 'chunked'}));
        socket.write(up.chunk(body));
        socket.write(up.LAST_CHUNK);
      });
      assertFailed(await ask(weir, chatBody()), 502, 'upstream_failed');
      await up.closing(upstream.requests[0]);
    });
  }

  test('reply_bytes does not limit a stream', async () => {
    const words = Array.from({length: 400}, (_, i) => String(i).padStart(32_000, '.'));
    const events = up.chatEvents(words);
    upstream.script(up.replies(up.sse(events)));
    const reply = await ask(weir, wholeStreamBody());
    assert.equal(reply.ended, 'complete');
    assert.ok(reply.body.length > REPLY_BYTES);
    assert.equal(digest(reply.body), digest(events.map((value) => up.event(value)).join('')));
  });

  test('a stream that breaks behind megabytes still ends in whole events and one error', async () => {
    const words = Array.from({length: 100}, (_, i) => String(i).padStart(32_000, '.'));
    const events = up.chatEvents(words).slice(0, 80);
    const bytes = up.sse(events).subarray(0, -up.LAST_CHUNK.length);
    upstream.script((request, socket) => void socket.end(bytes));
    assertInterrupted(await ask(weir, wholeStreamBody()), events.map((value) => up.event(value)).join(''));
  });

  test('large completions, both ways', async () => {
    const prompt = 'x'.repeat(1 << 20);
    const choices = [{index: 0, text: 'y'.repeat(1 << 20), logprobs: null, finish_reason: 'stop'}];
    const text = JSON.stringify({id: 'c', object: 'text_completion', choices});
    upstream.script(up.replies(up.jsonReply(text)));
    const reply = await ask(weir, {model: NAME, prompt}, {route: COMPLETIONS});
    assert.equal(digest(reply.body), digest(text));
    assert.equal(JSON.parse(upstream.requests[0].body).prompt.length, 1 << 20);
    assert.equal(upstream.requests[0].path, '/v1/completions');
  });
});

describe('stream_budget_bytes', {timeout: 120_000}, () => {
  const BUDGET = 4 << 20;
  const CLIENTS = 16;
  const PART = 900_000; // what each reply has sent when it pauses

  // Replies that pause with most of a large piece sent. `begin` comes before it.
  const pausing = (begin, piece, rest) => (request, socket) => {
    socket.write(Buffer.concat([Buffer.from(begin), Buffer.from(piece.slice(0, PART))]));
    held.push(() => socket.write(piece.slice(PART) + rest));
  };
  let held = [];

  async function crowd(t, body, handler) {
    held = [];
    const other = await relayOf(t, [target(upstream)], (config) => ({
      ...config,
      limits: {stream_budget_bytes: BUDGET},
    }));
    upstream.script(handler);
    const replies = await Promise.all(Array.from({length: CLIENTS}, () => start(other, body)));
    await eventually('all began', () => held.length === CLIENTS);
    // More than half of them do not fit.
    await eventually('refusals', () => replies.filter((reply) => reply.ended).length >= CLIENTS / 2);
    for (const go of held) go();
    await Promise.all(replies.map((reply) => reply.end));
    await eventually('nothing held', async () => (await other.metric(/^weir_reply_bytes/))[0] === 0);
    for (const reply of replies) reply.client.leave();
    return replies;
  }

  for (const framing of ['length', 'chunked']) {
    test(`whole replies (${framing}) over it are 503, those under it are served`, async (t) => {
      const text = JSON.stringify(up.chatReply('x'.repeat(1_000_000)));
      const type = {'content-type': 'application/json'};
      const handler = {
        length: pausing(up.head(200, {...type, 'content-length': text.length}), text, ''),
        chunked: pausing(
          `${up.head(200, {...type, 'transfer-encoding': 'chunked'})}${text.length.toString(16)}\r\n`,
          text,
          `\r\n${up.LAST_CHUNK}`,
        ),
      };
      const replies = await crowd(t, chatBody(), handler[framing]);
      const served = replies.filter((reply) => reply.status === 200);
      assert.ok(served.length > 0);
      for (const reply of served) assert.equal(reply.text, text);
      for (const reply of replies.filter((one) => one.status !== 200)) assertFailed(reply, 503, 'overloaded');
    });
  }

  test('streams over it end in one error, those under it go on', async (t) => {
    const begin = up.event(up.delta({content: 'a'}));
    const big = up.event(up.delta({content: 'x'.repeat(1_000_000)}));
    const end = up.event(up.delta({}, 'stop')) + up.event('[DONE]');
    const size = begin.length + big.length + end.length;
    const handler = pausing(up.head(200, {...up.SSE_FIELDS, 'content-length': size}) + begin, big, end);
    const replies = await crowd(t, wholeStreamBody(), handler);
    const served = replies.filter((reply) => reply.ended === 'complete');
    assert.ok(served.length > 0);
    for (const reply of served) assert.equal(reply.text, begin + big + end);
    for (const reply of replies.filter((one) => one.ended !== 'complete')) assertInterrupted(reply, begin);
  });
});

describe('after all of it', {timeout: 60_000}, () => {
  test('no body is held and nothing broke HTTP upstream', async () => {
    upstream.script(up.replies(up.sse(up.chatEvents())));
    assert.equal((await ask(weir, streamBody())).ended, 'complete');
    await eventually('no body held', async () => (await weir.metric(/^weir_body_bytes/))[0] === 0);
    assert.deepEqual(upstream.malformed, []);
  });
});
