// L5: memory and descriptors of a gateway that serves on and on, with streams, failures and clients that
// leave, are those that it had once warm.
import assert from 'node:assert/strict';
import {readFileSync, readdirSync} from 'node:fs';
import {describe, test} from 'node:test';

import {COMPLETIONS, start} from './support/client.js';
import {eventually} from './support/raw.js';
import {
  SLOW,
  chatBody,
  inParallel,
  randomSource,
  relayOf,
  streamBody,
  target,
  upstreamOf,
} from './support/relay.js';
import * as up from './support/upstream.js';

const WARM_UP = 4_000;
const ROUND = 2_000;
const ROUNDS = 4;
const GROWTH_KIB = 2 * 1024; // what the rounds may add: a quarter of a KiB kept a request
const SEED = 20_261_130;
const WORDS = Array.from({length: 40}, (_, i) => `word-${i} – 東京 `);

const streamHead = up.head(200, {...up.SSE_FIELDS, 'transfer-encoding': 'chunked'});
const started =
  streamHead +
  [up.PREAMBLE, up.delta({content: 'x'})].map((value) => String(up.chunk(up.event(value)))).join('');

// What a target does, drawn for each request; most of it is an answer.
const ANSWERS = [
  (body, socket) => socket.write(up.jsonReply({error: {message: 'broken'}}, {status: 500})),
  (body, socket) => socket.write(up.jsonReply({error: {message: 'no such field'}}, {status: 400})),
  (body, socket) => up.reset(socket),
  (body, socket) => socket.end('nonsense\r\n\r\n'),
  (body, socket) => {
    if (!body.stream) return socket.end(up.head(200, {'content-length': 100}));
    socket.write(started);
    return setTimeout(() => up.reset(socket), 5);
  },
];

function replica(random) {
  return (request, socket) => {
    if (up.isProbe(request)) return socket.write(up.jsonReply({}));
    const body = JSON.parse(request.body);
    const drawn = random(40);
    if (drawn < ANSWERS.length) return ANSWERS[drawn](body, socket);
    if (request.path.endsWith('/completions') && body.prompt) return socket.write(up.sse(up.textEvents()));
    return socket.write(
      body.stream ? up.sse(up.chatEvents(WORDS)) : up.jsonReply(up.chatReply('x'.repeat(2_000))),
    );
  };
}

// One request of a kind that is drawn: whole, a stream, a body at fault, one whose client leaves.
async function one(weir, random, n) {
  const messages = [{role: 'user', content: `${n} ${'lorem ipsum '.repeat(random(200))}`}];
  const kind = random(10);
  const body = [
    chatBody({messages}),
    chatBody({messages}),
    streamBody({messages}),
    streamBody({messages}),
    streamBody({messages}),
    {...chatBody(), prompt: messages[0].content, stream: true},
    chatBody({model: `junk-${n}`}),
    '{"model":',
    streamBody({messages}),
    chatBody({messages}),
  ][kind];
  const reply = await start(weir, body, {route: kind === 5 ? COMPLETIONS : undefined});
  if (kind >= 8)
    await new Promise((resolve) => setTimeout(resolve, random(4))); // and leaves
  else await reply.end;
  reply.client.leave();
}

const rssKib = (pid) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]);
const descriptors = (pid) => readdirSync(`/proc/${pid}/fd`).length;

describe('a long run', {timeout: 850_000}, () => {
  test(`L5: memory is flat after a warm-up, ${ROUNDS} times ${ROUND} requests, seed ${SEED}`, async (t) => {
    const random = randomSource(SEED);
    const upstreams = [await upstreamOf(t, replica(random)), await upstreamOf(t, replica(random))];
    const targets = upstreams.map((upstream, i) => target(upstream, {}, `r${i + 1}`));
    const change = (config) => ({
      ...config,
      log: {access: false, level: 'error'},
      failover: {open_ms: 100, slow_start_ms: 0},
    });
    const weir = await relayOf(t, targets, change);
    let sent = 0;
    const run = async (count) => {
      await inParallel(
        Array.from({length: count}, () => sent++),
        16,
        (n) => one(weir, random, n),
      );
      for (const upstream of upstreams) upstream.script(upstream.handler); // the test's own memory
      await eventually('nothing runs', async () =>
        (await weir.metric(/^weir_requests_in_flight/)).every((n) => n === 0),
      );
    };
    await run(WARM_UP);
    const {pid} = weir.child;
    const [rss, open] = [rssKib(pid), descriptors(pid)];
    const seen = [];
    for (let round = 0; round < ROUNDS; ++round) {
      await run(ROUND);
      seen.push(rssKib(pid));
    }
    t.diagnostic(`RSS in KiB: ${rss} warm, then ${seen}`);
    // A sanitizer keeps what was freed.
    if (!SLOW) assert.ok(seen.at(-1) - rss < GROWTH_KIB, `${rss} KiB, then ${seen}`);
    await eventually('descriptors are given back', () => descriptors(pid) <= open + 16);
  });
});
