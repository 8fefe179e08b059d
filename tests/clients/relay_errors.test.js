// An upstream that says no: one error shape whatever its own, its status where the client can do something
// about it, 502 where it cannot.
import assert from 'node:assert/strict';
import {after, before, describe, test} from 'node:test';

import {ask} from './support/client.js';
import {
  assertAdds,
  assertFailed,
  attempts,
  chatBody,
  startRelay,
  streamBody,
  target,
} from './support/relay.js';
import {assertSchema} from './support/schemas.js';
import * as up from './support/upstream.js';

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

const MESSAGE = 'the field is wrong, \u201creally\u201d';
const openAI = (code) => ({error: {message: MESSAGE, type: 'BadRequestError', param: 'messages', code}});
const kinds = {whole: chatBody(), stream: streamBody()};

async function answered(bytes, body) {
  upstream.script(up.replies(bytes));
  return ask(weir, body);
}

describe('errors of the upstream', {timeout: 120_000}, () => {
  for (const [kind, body] of Object.entries(kinds)) {
    for (const status of [400, 408, 409, 413, 415, 422, 500, 502, 503, 504, 529]) {
      test(`${status} keeps its status and its body (${kind})`, async () => {
        const outcome = status < 500 ? 'client_error' : 'server_error';
        for (const code of [null, 'some_code']) {
          const text = `${JSON.stringify(openAI(code))}\n`;
          const reply = await assertAdds(
            () => attempts(weir),
            {[outcome]: 1},
            () => answered(up.jsonReply(text, {status}), body),
          );
          assertFailed(reply, status, code);
          assert.equal(reply.text, text);
        }
      });
    }

    for (const status of [301, 302, 307, 401, 403, 405, 407]) {
      test(`${status} is no fault of the client: 502 (${kind})`, async () => {
        const fields = {location: 'http://127.0.0.1:1/', 'www-authenticate': 'Bearer'};
        const reply = await answered(up.jsonReply(openAI(null), {status, fields}), body);
        assertFailed(reply, 502, 'upstream_failed');
        for (const name of Object.keys(fields)) assert.ok(!(name in reply.headers), name);
        assert.equal(upstream.requests.length, 1, 'a redirection is not followed');
      });
    }
  }

  const shapes = {
    "vLLM's integer code": [JSON.stringify(openAI(400)), 'BadRequestError', '400'],
    "vLLM's old flat object": [
      JSON.stringify({object: 'error', message: MESSAGE, type: 'BadRequestError', param: null, code: 400}),
      'BadRequestError',
      '400',
    ],
    'detail as a string': [JSON.stringify({detail: MESSAGE})],
    'error as a string': [JSON.stringify({error: MESSAGE})],
    'an error object without type, param and code': [JSON.stringify({error: {message: MESSAGE}})],
    'no JSON': [MESSAGE],
  };
  for (const [name, [text, type, code]] of Object.entries(shapes)) {
    for (const status of [400, 500]) {
      test(`${name} becomes OpenAI's shape, the message kept (${status})`, async () => {
        const fields = {'content-length': Buffer.byteLength(text)};
        const reply = await answered(up.jsonReply(text, {status, fields}), chatBody());
        const error = assertFailed(reply, status);
        assert.equal(error.message, MESSAGE);
        assertSchema('ErrorResponse', reply.json);
        assert.deepEqual(Object.keys(error).sort(), ['code', 'message', 'param', 'type']);
        assert.ok(error.code === null || typeof error.code === 'string');
        if (type) assert.equal(error.type, type);
        if (code) assert.equal(error.code, code);
      });
    }
  }

  const odd = {
    "FastAPI's list of details": JSON.stringify({
      detail: [{loc: ['body', 'x'], msg: 'field required', type: 'missing'}],
    }),
    'an HTML page': '<html><body>Bad Gateway</body></html>',
    'an empty body': '',
    'bytes that are no UTF-8': Buffer.from([0xff, 0xfe, 0x80]),
    'an array': '[1,2]',
    null: 'null',
    'an error that is null': '{"error":null}',
    'an error without a message': '{"error":{"code":7}}',
    'a message that is no string': '{"error":{"message":{"a":1},"code":null}}',
    'a megabyte of text': 'x'.repeat(1 << 20),
  };
  for (const [name, text] of Object.entries(odd)) {
    test(`${name} becomes OpenAI's shape with some message`, async () => {
      const body = Buffer.from(text);
      const head = up.head(500, {'content-type': 'text/html', 'content-length': body.length});
      const reply = await answered(Buffer.concat([Buffer.from(head), body]), chatBody());
      const error = assertFailed(reply, 500);
      assertSchema('ErrorResponse', reply.json);
      assert.ok(Buffer.from(reply.text).equals(reply.body), 'valid UTF-8');
      if (name.startsWith('FastAPI')) assert.match(error.message, /field required/);
    });
  }

  test('a 429 is the caller\'s own limit: that of a target is a 503 with its retry advice', async () => {
    const fields = {'retry-after': '3', 'retry-after-ms': '2500', 'x-should-retry': 'true'};
    for (const body of Object.values(kinds)) {
      const reply = await answered(up.jsonReply(openAI(null), {status: 429, fields}), body);
      assertFailed(reply, 503, 'overloaded');
      assert.equal(reply.headers['retry-after'], '3');
      const ms = Number(reply.headers['retry-after-ms']);
      assert.ok(ms > 2_000 && ms <= 2_500, `${ms}`);
      assert.equal(upstream.requests.length, 1);
    }
  });
});
