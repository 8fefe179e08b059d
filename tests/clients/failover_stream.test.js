// A stream that goes wrong beside a target that is well: before the first content the other target answers,
// behind it nothing is asked again and the end is no clean one.
import assert from 'node:assert/strict';
import {describe, test} from 'node:test';

import {ask} from './support/client.js';
import {assertInterrupted, assertStream, relayOf, streamBody, target, upstreamOf} from './support/relay.js';
import * as up from './support/upstream.js';

const OK = up.chatEvents(['a ', 'b'], {usage: false});
const OK_TEXT = OK.map((value) => up.event(value)).join('');
const STALL_MS = 400; // far beyond what an answer takes, far below what a test may
const HEAD = up.head(200, {...up.SSE_FIELDS, 'transfer-encoding': 'chunked'});

const chunked = (text) => String(up.chunk(text));
const ERROR = {message: 'the engine died', type: 'server_error', param: null, code: 'boom'};
// What goes wrong, and the code that a client is told behind the first content.
const FAULTS = {
  'a cut': [(socket) => up.reset(socket), 'stream_interrupted'],
  'an end without its last chunk': [(socket) => socket.end(), 'stream_interrupted'],
  'a stall': [() => {}, 'deadline_exceeded'],
  'a stall within an event': [
    (socket) => socket.write(chunked('data: {"id":"c","choi')),
    'deadline_exceeded',
  ],
  'a chunk that is no chunk': [(socket) => socket.write('zz\r\n'), 'stream_interrupted'],
  'an event that is no JSON': [
    (socket) => socket.write(chunked('data: {"choices":[{"ind\n\n')),
    'stream_interrupted',
  ],
  'an error event': [(socket) => socket.write(chunked(up.event({error: ERROR}))), 'boom'],
  'an end without a finish_reason': [(socket) => socket.write(up.LAST_CHUNK), 'stream_interrupted'],
};

// Two targets: the one that is asked first sends `before` and then goes wrong.
async function pairOf(t, before, fault) {
  const asked = [];
  const handler = (name) => (request, socket) => {
    if (up.isProbe(request)) return; // a target that stalls does so there too
    asked.push(name);
    if (asked.length > 1) return void socket.write(up.sse(OK));
    socket.write(HEAD + before.map((value) => chunked(up.event(value))).join(''));
    setTimeout(() => fault(socket), 50); // behind what came before, as its own read
  };
  const limits = {inter_token_timeout_ms: STALL_MS};
  const targets = [];
  for (const name of ['r1', 'r2']) targets.push(target(await upstreamOf(t, handler(name)), limits, name));
  return {weir: await relayOf(t, targets), asked};
}

describe('a stream that goes wrong', {timeout: 240_000}, () => {
  for (const [name, [fault, code]] of Object.entries(FAULTS)) {
    test(`A4: ${name} before the first content: the other target answers, once and whole`, async (t) => {
      const {weir, asked} = await pairOf(t, [up.PREAMBLE], fault);
      assertStream(await ask(weir, streamBody()), OK_TEXT);
      assert.equal(new Set(asked).size, 2);
      assert.equal(asked.length, 2);
    });

    test(`A5: ${name} behind the first content: an error, and nothing is asked again`, async (t) => {
      const {weir, asked} = await pairOf(t, [up.PREAMBLE, up.delta({content: 'x'})], fault);
      const reply = await ask(weir, streamBody());
      assertInterrupted(reply, (before) => assert.match(String(before), /"content":"x"/), code);
      assert.equal(asked.length, 1);
    });
  }
});
