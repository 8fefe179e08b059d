// Weir in front of scripted replicas, and the outcomes that the relay defines.
import assert from 'node:assert/strict';

import {splitEvents} from './client.js';
import {eventually} from './raw.js';
import {Upstream} from './upstream.js';
import {Weir, user} from './weir.js';

export const NAME = 'fox';
export const ALIAS = 'fox-latest';
export const SLOW = process.env.WEIR_SLOW_BUILD === '1';
export const CANCEL_MS = SLOW ? 400 : 100; // a client's leaving is seen upstream within this time

const DRAIN_MS = 2000; // what a failed test leaves running is cut

export const target = (upstream, fields = {}, name = 'r1') => ({
  name,
  http: {base_url: upstream.base, ...fields},
});

// Weir with these targets behind one model; one I/O thread, so that it is known which connections are pooled.
export function startRelay(targets, change = (config) => config) {
  return Weir.start((config, dir) => {
    const changed = change(
      {
        ...config,
        io_threads: 1,
        log: {access: true},
        targets,
        models: [{name: NAME, aliases: [ALIAS], targets: targets.map(({name}) => name)}],
      },
      dir,
    );
    return {...changed, limits: {drain_grace_ms: DRAIN_MS, ...changed.limits}};
  });
}

// One for a test alone, stopped with it.
export async function relayOf(t, targets, change) {
  const weir = await startRelay(targets, change);
  t.after(() => weir.stop());
  return weir;
}

export async function upstreamOf(t, handler, options) {
  const upstream = await Upstream.start(handler, options);
  t.after(() => upstream.stop());
  return upstream;
}

export const chatBody = (fields = {}) => ({model: NAME, messages: [user('ping')], ...fields});
export const streamBody = (fields = {}) => chatBody({stream: true, ...fields});
// With usage asked for, the body goes upstream as it is and no event is dropped.
export const wholeStreamBody = (fields = {}) =>
  streamBody({stream_options: {include_usage: true}, ...fields});

// Deterministic, so that a failure can be repeated.
export function randomSource(seed) {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

// Runs `one` for each item, `width` at a time.
export async function inParallel(items, width, one) {
  const queue = items[Symbol.iterator]();
  const lane = async () => {
    for (let next = queue.next(); !next.done; next = queue.next()) await one(next.value);
  };
  await Promise.all(Array.from({length: width}, lane));
}

// The JSON error of a request of which nothing was answered yet.
export function assertFailed(reply, status, code, what = '') {
  const said = `${what} ${reply.status} ${reply.text.slice(0, 300)}`;
  assert.equal(reply.ended, 'complete', said);
  assert.equal(reply.status, status, said);
  assert.match(reply.headers['content-type'], /^application\/json/, said);
  const {error} = reply.json;
  assert.equal(typeof error.message, 'string', said);
  assert.ok(error.message.length > 0, said);
  assert.ok(typeof error.type === 'string', said);
  if (code !== undefined) assert.equal(error.code, code, said);
  return error;
}

// A stream that broke after its first content: whole events, one error event, no [DONE], no clean end.
// `events`: the bytes before the error, or a check of them.
export function assertInterrupted(reply, events, code = 'stream_interrupted', what = '') {
  const said = `${what} ${reply.status} ${reply.ended} ${JSON.stringify(reply.text.slice(-600))}`;
  assert.equal(reply.status, 200, said);
  assert.match(reply.headers['content-type'], /^text\/event-stream/, said);
  assert.equal(reply.ended, 'aborted', said);
  const {events: got, rest} = splitEvents(reply.body);
  assert.equal(rest.length, 0, `half an event: ${said}`);
  assert.ok(!reply.text.includes('[DONE]'), said);
  const last = String(got.at(-1));
  assert.match(last, /^data: \{"error":/, said);
  const {error} = JSON.parse(last.slice('data: '.length));
  assert.equal(got.filter((part) => part.includes('{"error":')).length, 1, said);
  assert.ok(typeof error.message === 'string' && typeof error.type === 'string', said);
  if (code !== undefined) assert.equal(error.code, code, said);
  const before = Buffer.concat(got.slice(0, -1));
  if (typeof events === 'function') events(before, said);
  else assert.equal(String(before), String(events), said);
  return error;
}

export function assertStream(reply, payload, what = '') {
  const said = `${what} ${reply.status} ${reply.ended}`;
  assert.equal(reply.status, 200, `${said} ${reply.text.slice(0, 300)}`);
  assert.match(reply.headers['content-type'], /^text\/event-stream/, said);
  assert.equal(reply.text, String(payload), said);
  assert.equal(reply.ended, 'complete', said);
}

const LINE = /^(\w+)(?:\{(.*)\})? (\S+)$/;

// A metric family's values by one label, of the series that have all labels of `where`.
export async function counts(weir, name, by, where = {}) {
  const text = await (await fetch(`${weir.admin}/metrics`)).text();
  const out = {};
  for (const line of text.split('\n')) {
    const [, family, labels = '', value] = LINE.exec(line) ?? [];
    if (family !== name) continue;
    const set = Object.fromEntries([...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, k, v]) => [k, v]));
    if (Object.entries(where).some(([key, wanted]) => set[key] !== wanted)) continue;
    if (Number(value) !== 0) out[set[by]] = (out[set[by]] ?? 0) + Number(value);
  }
  return out;
}

export const attempts = (weir, name = 'r1') =>
  counts(weir, 'weir_upstream_attempts_total', 'outcome', {target: name});
export const connections = (weir, name = 'r1') =>
  counts(weir, 'weir_upstream_connections_total', 'kind', {target: name});
export const retries = async (weir, name = 'r1') =>
  (await counts(weir, 'weir_upstream_retries_total', 'target', {target: name}))[name] ?? 0;
export const statuses = (weir) => counts(weir, 'weir_requests_total', 'status');

function difference(now, then) {
  const out = {};
  for (const [key, value] of Object.entries(now))
    if (value !== (then[key] ?? 0)) out[key] = value - (then[key] ?? 0);
  return out;
}

// What `act` adds to the counts that `read` gives; waited for, since a count may follow the reply.
export async function assertAdds(read, expected, act) {
  const then = await read();
  const value = await act();
  let added;
  const settled = async () => {
    added = difference(await read(), then);
    return JSON.stringify(Object.entries(added).sort()) === JSON.stringify(Object.entries(expected).sort());
  };
  await eventually('the counts', settled, 5000).catch(() => assert.deepEqual(added, expected));
  return value;
}

// The access-log line of a reply.
export async function logLine(weir, reply) {
  const id = reply.headers['x-request-id'];
  let found;
  await eventually('the access log', () => {
    found = weir.log.split('\n').find((line) => line.startsWith('{') && line.includes(`"${id}"`));
    return found !== undefined;
  });
  return JSON.parse(found);
}
