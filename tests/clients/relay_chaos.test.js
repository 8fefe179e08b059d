// Weir in front of a mock replica, with a proxy between them that harms half of the connections at random
// bytes: whatever it does, a client gets a whole answer, an error with its status, or a stream that ends in
// one error event and a cut body; and afterwards everything works as before.
import assert from 'node:assert/strict';
import {after, before, describe, test} from 'node:test';

import {ask, splitEvents} from './support/client.js';
import {Tool} from './support/loadtest.js';
import {eventually} from './support/raw.js';
import {NAME, assertFailed, assertInterrupted, chatBody, inParallel, startRelay} from './support/relay.js';

const REQUESTS = 300;
const WIDTH = 16;
const TOKENS = 12;
const SEEDS = [1, 2, 3];

// A byte that was turned may change a word of the answer unseen, so only its form is checked.
function assertWhole(reply, stream, what) {
  const said = `${what} ${reply.status} ${reply.ended} ${JSON.stringify(reply.text.slice(-300))}`;
  assert.equal(reply.ended, 'complete', said);
  if (!stream) {
    assert.equal(reply.json.object, 'chat.completion', said);
    return;
  }
  const {events, rest} = splitEvents(reply.body);
  assert.equal(rest.length, 0, said);
  const last = String(events.at(-1));
  assert.ok(last.includes('[DONE]') || reply.text.includes('"finish_reason":"'), said);
  for (const event of events) {
    const [, data] = /^data: (.*)\n\n$/s.exec(String(event)) ?? [];
    if (data !== undefined && data !== '[DONE]') JSON.parse(data);
  }
}

function assertDefined(reply, stream, what) {
  if (reply.ended === 'complete' && reply.status === 200) {
    assertWhole(reply, stream, what);
    return 'whole';
  }
  if (reply.status === 200) {
    const late = reply.text.includes('"deadline_exceeded"');
    assertInterrupted(reply, () => {}, late ? 'deadline_exceeded' : 'stream_interrupted', what);
    return 'interrupted';
  }
  assert.ok([502, 503, 504].includes(reply.status), `${what} ${reply.status} ${reply.text}`);
  assertFailed(reply, reply.status, undefined, what);
  return 'failed';
}

for (const seed of SEEDS) {
  describe(`a target behind a harmful network, seed ${seed}`, {timeout: 300_000}, () => {
    let mock, chaos, weir;
    before(async () => {
      mock = await Tool.start('mock', '--tokens', String(TOKENS), '--itl-ms', '1', '--keep-alive-ms', '60000');
      chaos = await Tool.start(
        'chaos',
        ...['--to', mock.authority, '--schedule', 'random', '--share', '0.5'],
        ...['--k-max', '4000', '--seed', String(seed), '--verbose'],
      );
      const fields = {base_url: `http://${chaos.authority}/v1`, request_timeout_ms: 1000};
      const limits = {first_token_timeout_ms: 1000, inter_token_timeout_ms: 1000};
      weir = await startRelay([{name: 'r1', http: {...fields, ...limits}}]);
    });
    after(async () => {
      await weir.stop();
      await chaos.stop();
      await mock.stop();
    });

    test('every answer has a defined outcome', async () => {
      const tally = {whole: 0, interrupted: 0, failed: 0};
      await inParallel(
        Array.from({length: REQUESTS}, (_, i) => i),
        WIDTH,
        async (i) => {
          const stream = i % 3 !== 0;
          const reply = await ask(weir, chatBody({stream, max_tokens: TOKENS}));
          tally[assertDefined(reply, stream, `request ${i}, seed ${seed}`)]++;
        },
      );
      assert.ok(tally.whole > REQUESTS / 4, JSON.stringify(tally));
      assert.ok(tally.failed > 0 && tally.interrupted > 0, JSON.stringify(tally));
    });

    test('afterwards nothing is held', async () => {
      await eventually('idle', async () => (await weir.metric(/^weir_requests_in_flight/))[0] === 0);
      await eventually('no reply held', async () => (await weir.metric(/^weir_reply_bytes/))[0] === 0);
      assert.doesNotMatch(weir.log, /fault/);
      assert.equal((await (await fetch(`${weir.base}/models`)).json()).data[0].id, NAME);
      assert.equal(await mock.metric('mock_malformed_requests_total'), 0);
    });
  });
}
