// Replies that break HTTP or say no: 502 or an aborted stream for the former, one error shape for the
// latter. And which connections may serve again.
import assert from 'node:assert/strict';
import {after, before, describe, test} from 'node:test';
import {gzipSync} from 'node:zlib';

import {ask} from './support/client.js';
import {
  assertAdds,
  assertFailed,
  assertInterrupted,
  assertStream,
  attempts,
  chatBody,
  connections,
  retries,
  startRelay,
  streamBody,
  target,
  wholeStreamBody,
} from './support/relay.js';
import * as up from './support/upstream.js';

let upstream;
let weir;
before(async () => {
  upstream = await up.Upstream.start();
  weir = await startRelay([target(upstream)], (config) => ({
    ...config,
    limits: {request_timeout_ms: 20_000},
  }));
});
after(async () => {
  await weir.stop();
  await upstream.stop();
});

const BODY = JSON.stringify(up.chatReply());
const TYPE = 'content-type: application/json\r\n';
const LENGTH = `content-length: ${BODY.length}\r\n`;
const withHead = (lines, body = BODY) => `HTTP/1.1 200 OK\r\n${TYPE}${lines}\r\n${body}`;
const inChunks = (body) => withHead('transfer-encoding: chunked\r\n', body);
const GOOD_CHUNK = String(up.chunk(BODY));

const broken = {
  'no HTTP at all': 'hello, world\r\n\r\n',
  'a status line of another protocol': `ICY 200 OK\r\n${TYPE}${LENGTH}\r\n${BODY}`,
  'HTTP/2.0': `HTTP/2.0 200 OK\r\n${TYPE}${LENGTH}\r\n${BODY}`,
  'a status of two digits': `HTTP/1.1 20 OK\r\n${TYPE}${LENGTH}\r\n${BODY}`,
  'a status of four digits': `HTTP/1.1 2000 OK\r\n${TYPE}${LENGTH}\r\n${BODY}`,
  'a status that is no number': `HTTP/1.1 2x0 OK\r\n${TYPE}${LENGTH}\r\n${BODY}`,
  'bare line feeds': `HTTP/1.1 200 OK\n${TYPE.trim()}\n${LENGTH.trim()}\n\n${BODY}`,
  'a bare carriage return in a value': withHead(`x-a: b\rc\r\n${LENGTH}`),
  'NUL in a value': withHead(`x-a: b\0c\r\n${LENGTH}`),
  'space before the colon': withHead(`x-a : b\r\n${LENGTH}`),
  'no colon': withHead(`x-a\r\n${LENGTH}`),
  'an empty field name': withHead(`: b\r\n${LENGTH}`),
  'a folded field': withHead(`x-a: b\r\n c\r\n${LENGTH}`),
  'content-length: negative': withHead('content-length: -1\r\n'),
  'content-length: signed': withHead(`content-length: +${BODY.length}\r\n`),
  'content-length: hex': withHead(`content-length: 0x${BODY.length.toString(16)}\r\n`),
  'content-length: empty': withHead('content-length: \r\n'),
  'content-length: beyond 64 bits': withHead(`content-length: ${'9'.repeat(30)}\r\n`),
  'content-length: a list': withHead(`content-length: ${BODY.length}, ${BODY.length}\r\n`),
  'content-length: twice, different': withHead(`${LENGTH}content-length: 1\r\n`),
  'content-length: twice, equal': withHead(LENGTH + LENGTH),
  'content-length and chunked': withHead(`${LENGTH}transfer-encoding: chunked\r\n`, `${GOOD_CHUNK}0\r\n\r\n`),
  'chunked and content-length': withHead(`transfer-encoding: chunked\r\n${LENGTH}`, `${GOOD_CHUNK}0\r\n\r\n`),
  'chunked in HTTP/1.0': inChunks(`${GOOD_CHUNK}0\r\n\r\n`).replace('HTTP/1.1', 'HTTP/1.0'),
  'an unknown transfer-encoding': withHead('transfer-encoding: xchunked\r\n', `${GOOD_CHUNK}0\r\n\r\n`),
  'transfer-encoding: gzip, chunked': withHead(
    'transfer-encoding: gzip, chunked\r\n',
    `${GOOD_CHUNK}0\r\n\r\n`,
  ),
  'transfer-encoding: chunked, gzip': withHead(
    'transfer-encoding: chunked, gzip\r\n',
    `${GOOD_CHUNK}0\r\n\r\n`,
  ),
  'transfer-encoding: twice': withHead(
    'transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n',
    `${GOOD_CHUNK}0\r\n\r\n`,
  ),
  'transfer-encoding: empty': withHead(`transfer-encoding: \r\n${LENGTH}`),
  'chunk size: empty': inChunks(`\r\n${BODY}\r\n0\r\n\r\n`),
  'chunk size: no hex': inChunks(`zz\r\n${BODY}\r\n0\r\n\r\n`),
  'chunk size: signed': inChunks(`+5\r\nhello\r\n0\r\n\r\n`),
  'chunk size: 0x': inChunks(`0x5\r\nhello\r\n0\r\n\r\n`),
  'chunk size: beyond 64 bits': inChunks(`${'f'.repeat(17)}\r\n${BODY}`),
  'chunk data longer than its size': inChunks(`5\r\n${BODY}\r\n0\r\n\r\n`),
  'chunk data not followed by CRLF': inChunks(`${GOOD_CHUNK.slice(0, -2)}xx0\r\n\r\n`),
  'a chunk line that ends in LF': inChunks(`${BODY.length.toString(16)}\n${BODY}\r\n0\r\n\r\n`),
  'a chunk extension of 20 KB': inChunks(
    `${BODY.length.toString(16)};x=${'y'.repeat(20_000)}\r\n${BODY}\r\n0\r\n\r\n`,
  ),
  'a head of 70 KB in one field': withHead(`x-a: ${'y'.repeat(70_000)}\r\n${LENGTH}`),
  'a head of 70 KB in many fields': withHead(`${'x-a: y\r\n'.repeat(9000)}${LENGTH}`),
  'nine replies of 1xx': `HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n`.repeat(9) + withHead(LENGTH),
  '101, which nobody asked for': `HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n${BODY}`,
};

describe('replies that break HTTP', {timeout: 120_000}, () => {
  for (const [name, bytes] of Object.entries(broken)) {
    for (const [kind, body] of Object.entries({whole: chatBody(), stream: streamBody()})) {
      test(`${name}: 502, and the connection goes (${kind})`, async () => {
        upstream.script(up.replies(bytes));
        const reply = await assertAdds(
          () => attempts(weir),
          {broken: 1},
          () => ask(weir, body),
        );
        assertFailed(reply, 502, 'upstream_failed', name);
        await up.closing(upstream.requests[0]);
        assert.equal(upstream.requests.length, 1, 'a reply with bytes is not tried again');
      });
    }
  }

  test('up to eight replies of 1xx are skipped', async () => {
    upstream.script(up.replies('HTTP/1.1 100 Continue\r\n\r\n'.repeat(8) + withHead(LENGTH)));
    const reply = await ask(weir, chatBody());
    assert.equal(reply.status, 200, reply.text);
    assert.equal(reply.text, BODY);
  });

  const begin = [up.PREAMBLE, up.delta({content: 'a'})].map((value) => up.event(value)).join('');
  const midStream = {
    'no hex in a size': 'zz\r\n',
    'a size beyond 64 bits': `${'f'.repeat(17)}\r\n`,
    'data not followed by CRLF': '5\r\n: abcXX',
    'a line that ends in LF': '5\n: abc\r\n',
    'an extension of 20 KB': `5;x=${'y'.repeat(20_000)}\r\n: abc\r\n`,
  };
  for (const [name, bytes] of Object.entries(midStream)) {
    test(`chunks in mid-stream, ${name}: one error event, an aborted body`, async () => {
      upstream.script((request, socket) => {
        socket.write(up.head(200, {...up.SSE_FIELDS, 'transfer-encoding': 'chunked'}));
        socket.write(up.chunk(begin));
        socket.write(bytes);
      });
      const reply = await assertAdds(
        () => attempts(weir),
        {broken: 1},
        () => ask(weir, wholeStreamBody()),
      );
      assertInterrupted(reply, begin);
      await up.closing(upstream.requests[0]);
    });
  }
});

describe('compressed replies', {timeout: 60_000}, () => {
  const type = {'content-type': 'application/json', 'content-encoding': 'gzip'};
  const big = JSON.stringify(up.chatReply('The quick brown fox. '.repeat(20_000)));
  for (const [name, accept] of Object.entries({'asks for it': {'accept-encoding': 'gzip'}, 'does not': {}})) {
    for (const [kind, body] of Object.entries({small: BODY, large: big})) {
      test(`I2 gzip that nobody asked for is decoded (${kind}, the client ${name})`, async () => {
        const packed = gzipSync(body);
        upstream.script((request, socket) => {
          socket.write(up.head(200, {...type, 'content-length': packed.length}));
          return up.pieces(socket, packed, 1000);
        });
        const reply = await ask(weir, chatBody(), {headers: accept});
        assert.equal(reply.status, 200);
        assert.ok(!('content-encoding' in reply.headers));
        assert.equal(reply.text, body);
      });
    }
  }

  test('I2 a gzip stream is decoded, each event as it comes', async () => {
    const payload = up
      .chatEvents()
      .map((value) => up.event(value))
      .join('');
    const packed = gzipSync(payload);
    upstream.script((request, socket) => {
      const fields = {...up.SSE_FIELDS, 'content-encoding': 'gzip', 'transfer-encoding': 'chunked'};
      socket.write(up.head(200, fields));
      for (let at = 0; at < packed.length; at += 11) socket.write(up.chunk(packed.subarray(at, at + 11)));
      socket.write(up.LAST_CHUNK);
    });
    const reply = await ask(weir, wholeStreamBody());
    assertStream(reply, payload);
    assert.ok(!('content-encoding' in reply.headers));
  });

  const packed = gzipSync(BODY);
  const bad = {
    'gzip that is none': Buffer.from(BODY),
    'gzip cut short': packed.subarray(0, -10),
    'gzip with a wrong checksum': Buffer.concat([packed.subarray(0, -8), Buffer.alloc(8, 1)]),
    'gzip that grows beyond reply_bytes': gzipSync(Buffer.alloc(80 << 20, 'x')),
  };
  for (const [name, body] of Object.entries(bad)) {
    test(`${name}: 502`, async () => {
      upstream.script(
        up.replies(
          Buffer.concat([Buffer.from(up.head(200, {...type, 'content-length': body.length})), body]),
        ),
      );
      assertFailed(await ask(weir, chatBody()), 502, 'upstream_failed');
    });
  }

  test('an encoding that we cannot decode: 502', async () => {
    upstream.script(up.replies(up.jsonReply('xx', {fields: {'content-encoding': 'br'}})));
    assertFailed(await ask(weir, chatBody()), 502, 'upstream_failed');
  });
});

describe('connections', {timeout: 120_000}, () => {
  // With no connection left over: whether that of `act` serves the request behind it.
  async function isReused(handler, act = () => ask(weir, chatBody())) {
    upstream.script(up.replies(up.jsonReply(up.chatReply(), {fields: {connection: 'close'}})));
    await ask(weir, chatBody());
    while (upstream.open > 0) await ask(weir, chatBody());
    upstream.script(handler);
    await act();
    const first = upstream.requests.at(-1).connection;
    upstream.script(up.replies(up.jsonReply(up.chatReply())));
    assert.equal((await ask(weir, chatBody())).status, 200);
    return upstream.requests.at(-1).connection === first;
  }

  const stream = up.sse(up.chatEvents());
  const kept = {
    'a whole reply': [up.jsonReply(up.chatReply())],
    'a chunked whole reply': [`${inChunks(GOOD_CHUNK)}0\r\n\r\n`],
    'a chunked reply with trailers': [`${inChunks(GOOD_CHUNK)}0\r\nx-a: b\r\n\r\n`],
    'a stream': [stream, streamBody()],
    'a stream with a length': [up.sse(up.chatEvents(), {framing: 'length'}), streamBody()],
    'an error of the client': [
      up.jsonReply({error: {message: 'm', type: 't', param: null, code: null}}, {status: 400}),
    ],
  };
  for (const [name, [bytes, body = chatBody()]] of Object.entries(kept)) {
    test(`${name} leaves a connection that serves again`, async () => {
      const used = () => isReused(up.replies(bytes), () => ask(weir, body));
      assert.equal(await used(), true);
    });
  }

  const dropped = {
    'Connection: close': [up.jsonReply(up.chatReply(), {fields: {connection: 'close'}})],
    'Connection: Close among others': [up.jsonReply(up.chatReply(), {fields: {connection: 'x, Close'}})],
    'HTTP/1.0': [withHead(LENGTH).replace('HTTP/1.1', 'HTTP/1.0')],
    'extra bytes in the same write': [`${withHead(LENGTH)}HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nbad`],
    'one byte after a chunked body': [`${inChunks(GOOD_CHUNK)}0\r\n\r\nx`],
    'one byte after a stream': [Buffer.concat([stream, Buffer.from('x')]), streamBody()],
  };
  for (const [name, [bytes, body = chatBody()]] of Object.entries(dropped)) {
    test(`${name} leaves none`, async () => {
      let reply;
      const used = await isReused(up.replies(bytes), async () => {
        reply = await ask(weir, body);
      });
      assert.equal(used, false);
      if (reply.status === 200)
        assert.ok(!reply.text.includes('bad') && !reply.text.endsWith('x'), reply.text);
      else assertFailed(reply, 502, 'upstream_failed');
    });
  }

  test('bytes that come while a connection is idle end it and are no reply to the next request', async () => {
    let idle;
    const used = await isReused(up.replies(up.jsonReply(up.chatReply('first'))), async () => {
      await ask(weir, chatBody());
      idle = upstream.requests[0].socket;
      idle.write(up.jsonReply(up.chatReply('of nobody')));
      await up.closing(upstream.requests[0]);
    });
    assert.equal(used, false);
  });

  test('many requests in turn use one connection', async () => {
    upstream.script(up.replies(up.jsonReply(up.chatReply())));
    await ask(weir, chatBody());
    await assertAdds(
      () => connections(weir),
      {reused: 20},
      async () => {
        for (let i = 0; i < 20; ++i) await ask(weir, chatBody());
      },
    );
  });

  test('the retry is one: a second failure is the answer, whatever the connection', async () => {
    upstream.script(up.replies(up.jsonReply(up.chatReply())));
    await ask(weir, chatBody());
    upstream.script((request, socket) => up.reset(socket));
    const before = await retries(weir);
    assertFailed(await ask(weir, chatBody()), 502, 'upstream_failed');
    assert.equal(upstream.requests.length, 2);
    assert.equal(upstream.requests[1].index, 0);
    assert.equal(await retries(weir), before + 1);
  });

  test('a reused connection that fails behind its first byte is not tried again', async () => {
    upstream.script(up.replies(up.jsonReply(up.chatReply())));
    await ask(weir, chatBody());
    upstream.script((request, socket) => void socket.end('H'));
    const before = await retries(weir);
    assertFailed(await ask(weir, chatBody()), 502, 'upstream_failed');
    assert.equal(upstream.requests.length, 1);
    assert.equal(await retries(weir), before);
  });
});
