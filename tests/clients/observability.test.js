// What operators see: traces at a collector, one log line a request, metrics in the names that dashboards use, and
// a dashboard and alert rules that name nothing else.
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {once} from 'node:events';
import {readFileSync, writeFileSync} from 'node:fs';
import {createServer} from 'node:http';
import path from 'node:path';
import {describe, test} from 'node:test';

import {ask} from './support/client.js';
import {eventually} from './support/raw.js';
import {NAME, chatBody, logLine, relayOf, streamBody, target, upstreamOf} from './support/relay.js';
import {Weir} from './support/weir.js';
import * as up from './support/upstream.js';

const FOLDER = path.join(import.meta.dirname, '../../configs/observability');
const TRACE = '0af7651916cd43dd8448eb211c80319c';
const PARENT = 'b7ad6b7169203331';
const SAMPLED = `00-${TRACE}-${PARENT}-01`;
const SECRET = 'collector-secret';
const answers = (request, socket) =>
  socket.write(JSON.parse(request.body).stream ? up.sse(up.chatEvents(['a ', 'b'])) : up.jsonReply(up.chatReply()));

// Checks each post as OTLP/HTTP demands, and answers as the test says.
async function collectorOf(t, statusOf = () => 200) {
  const posts = [];
  const server = createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    posts.push({path: request.url, headers: request.headers, body: JSON.parse(Buffer.concat(parts))});
    response.writeHead(statusOf(posts.length), {'content-type': 'application/json'}).end('{}');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const spans = () =>
    posts.flatMap(({body}) => body.resourceSpans).flatMap(({scopeSpans}) => scopeSpans).flatMap((scope) => scope.spans);
  return {posts, spans, url: `http://127.0.0.1:${server.address().port}`};
}

const attributes = (span) =>
  Object.fromEntries(span.attributes.map(({key, value}) => [key, Object.values(value)[0]]));

async function tracedOf(t, collector, handlers, tracing = {}) {
  const upstreams = [];
  for (const handler of handlers) upstreams.push(await upstreamOf(t, handler));
  const weir = await relayOf(t, upstreams.map((one, i) => target(one, {}, `r${i + 1}`)), (config, dir) => {
    const token_file = path.join(dir, 'collector.token');
    writeFileSync(token_file, SECRET, {mode: 0o600});
    return {...config, tracing: {endpoint: collector.url, sample: 0, token_file, ...tracing}};
  });
  return {weir, upstreams};
}

describe('traces', {timeout: 120_000}, () => {
  test('a caller’s trace goes on: a span of the request, one of its attempt, and the target as its child', async (t) => {
    const collector = await collectorOf(t);
    const {weir, upstreams} = await tracedOf(t, collector, [answers]);
    const reply = await ask(weir, streamBody(), {headers: {traceparent: SAMPLED, tracestate: 'v=1'}});
    await eventually('both spans', () => collector.spans().length === 2);
    const [post] = collector.posts;
    assert.equal(post.path, '/v1/traces');
    assert.equal(post.headers['content-type'], 'application/json');
    assert.equal(post.headers.authorization, `Bearer ${SECRET}`);
    const attempt = collector.spans().find(({kind}) => kind === 3);
    const request = collector.spans().find(({kind}) => kind === 2);
    assert.equal(request.traceId, TRACE);
    assert.equal(request.parentSpanId, PARENT);
    assert.equal(request.traceState, 'v=1');
    assert.equal(request.name, `chat ${NAME}`);
    assert.equal(attempt.parentSpanId, request.spanId);
    assert.ok(BigInt(attempt.endTimeUnixNano) >= BigInt(attempt.startTimeUnixNano));
    const said = attributes(request);
    assert.equal(said['gen_ai.operation.name'], 'chat');
    assert.equal(said['gen_ai.request.model'], NAME);
    assert.equal(said['http.response.status_code'], '200');
    assert.equal(said['weir.target'], 'r1');
    const sent = upstreams[0].requests[0].headers;
    assert.equal(sent.traceparent, `00-${TRACE}-${attempt.spanId}-01`);
    assert.equal(sent.tracestate, 'v=1');
    assert.equal((await logLine(weir, reply)).trace_id, TRACE);
  });

  test('an attempt that failed and the one behind it are both children, with what each died of', async (t) => {
    const collector = await collectorOf(t);
    const fails = (request, socket) => socket.write(up.jsonReply({error: {message: 'oops'}}, {status: 500}));
    let count = 0;
    const first = (request, socket) => (up.isProbe(request) ? answers : count++ === 0 ? fails : answers)(request, socket);
    const {weir} = await tracedOf(t, collector, [first, first]);
    await ask(weir, chatBody(), {headers: {traceparent: SAMPLED}});
    await eventually('three spans', () => collector.spans().length === 3);
    const attempts = collector.spans().filter(({kind}) => kind === 3);
    assert.deepEqual(attempts.map(({status}) => status?.code ?? 0).sort(), [0, 2]);
    assert.equal(new Set(attempts.map((span) => attributes(span)['weir.target'])).size, 2);
  });

  test('a caller that does not sample, a malformed header and sample 0 send nothing; sample 1 sends all', async (t) => {
    const collector = await collectorOf(t);
    const {weir} = await tracedOf(t, collector, [answers]);
    for (const traceparent of [SAMPLED.replace(/01$/, '00'), 'nonsense', `00-${'0'.repeat(32)}-${PARENT}-01`]) {
      await ask(weir, chatBody(), {headers: {traceparent}});
    }
    await ask(weir, chatBody());
    const all = await collectorOf(t);
    const {weir: traced, upstreams} = await tracedOf(t, all, [answers], {sample: 1});
    await ask(traced, chatBody());
    await eventually('its spans', () => all.spans().length === 2);
    assert.match(upstreams[0].requests[0].headers.traceparent, /^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/);
    assert.equal(collector.spans().length, 0);
  });

  test('without a collector a caller’s headers still reach the target as they came', async (t) => {
    const upstream = await upstreamOf(t, answers);
    const weir = await relayOf(t, [target(upstream)]);
    await ask(weir, chatBody(), {headers: {traceparent: SAMPLED, tracestate: 'v=1'}});
    await ask(weir, chatBody(), {headers: {traceparent: 'nonsense', tracestate: 'v=1'}});
    const [first, second] = upstream.requests;
    assert.equal(first.headers.traceparent, SAMPLED);
    assert.equal(first.headers.tracestate, 'v=1');
    assert.ok(!('traceparent' in second.headers) && !('tracestate' in second.headers));
  });

  test('a collector that is busy is asked again, one that refuses is not; requests wait for neither', async (t) => {
    const busy = await collectorOf(t, (count) => (count === 1 ? 503 : 200));
    const refusing = await collectorOf(t, () => 400);
    for (const [collector, outcome, posts] of [[busy, 'sent', 2], [refusing, 'dropped', 1]]) {
      const {weir} = await tracedOf(t, collector, [answers], {sample: 1});
      assert.equal((await ask(weir, chatBody())).status, 200);
      const count = () => weir.metric(new RegExp(`^weir_trace_spans_total\\{outcome="${outcome}"\\}`));
      await eventually('the outcome', async () => (await count())[0] === 2);
      assert.equal(collector.posts.length, posts);
    }
    const {weir} = await tracedOf(t, {url: 'http://127.0.0.1:1'}, [answers], {sample: 1});
    assert.equal((await ask(weir, chatBody())).status, 200);
  });

  test('the token of the collector and what was said stay out of logs, metrics and spans', async (t) => {
    const collector = await collectorOf(t);
    const {weir} = await tracedOf(t, collector, [answers], {sample: 1});
    await ask(weir, chatBody({messages: [{role: 'user', content: 'canary-prompt'}]}));
    await eventually('its spans', () => collector.spans().length === 2);
    const metrics = await (await fetch(`${weir.admin}/metrics`)).text();
    for (const text of [weir.log, metrics, JSON.stringify(collector.spans())]) {
      assert.ok(!text.includes(SECRET) && !text.includes('canary-prompt'));
    }
  });
});

describe('what dashboards read', {timeout: 120_000}, () => {
  test('GenAI names with their labels, and the gateway’s own time', async (t) => {
    const upstream = await upstreamOf(t, answers);
    const weir = await relayOf(t, [target(upstream)]);
    const reply = await ask(weir, streamBody({stream_options: {include_usage: true}}));
    const line = await logLine(weir, reply);
    assert.ok(line.overhead_ms >= 0 && line.overhead_ms < 1000);
    assert.ok(line.predicted_ttft_ms >= 0);
    const text = await (await fetch(`${weir.admin}/metrics`)).text();
    const labels = `gen_ai_operation_name="chat",gen_ai_provider_name="openai",gen_ai_request_model="${NAME}"`;
    for (const name of ['gen_ai_server_request_duration_seconds', 'gen_ai_server_time_to_first_token_seconds']) {
      assert.ok(text.includes(`${name}_count{${labels}} 1`), name);
    }
    for (const type of ['input', 'output']) {
      assert.match(text, new RegExp(`gen_ai_client_token_usage_sum\\{[^}]*gen_ai_token_type="${type}"\\} [1-9]`));
    }
    assert.match(text, /weir_gateway_overhead_seconds_count 1/);
  });

  test('every series that the dashboard and the rules name is one of weir’s', async (t) => {
    const upstream = await upstreamOf(t, answers);
    const weir = await relayOf(t, [{...target(upstream), accounts: {state_slots: 9}}]);
    await ask(weir, streamBody({stream_options: {include_usage: true}}));
    const engine = await Weir.start();
    t.after(() => engine.stop());
    await engine.chat({messages: [{role: 'user', content: 'ping'}]});
    const texts = [weir, engine].map(async ({admin}) => (await fetch(`${admin}/metrics`)).text());
    const text = (await Promise.all(texts)).join('\n');
    const known = new Set([...text.matchAll(/^# TYPE (\w+)/gm)].map(([, name]) => name));
    const sources = ['weir-dashboard.json', 'weir-alerts.yaml'].map((name) => readFileSync(path.join(FOLDER, name), 'utf8'));
    const named = new Set(sources.join('\n').match(/\b(?:weir|gen_ai)_[a-z_]+[a-z]/g));
    const labels = new Set(['gen_ai_request_model']);
    const missing = [...named].filter((name) => {
      const family = name.replace(/_(bucket|sum|count)$/, '');
      return !labels.has(name) && !known.has(family) && !family.startsWith('weir_ledger_');
    });
    assert.deepEqual(missing, []);
    assert.equal(JSON.parse(sources[0]).schemaVersion >= 39, true);
  });

  test('promtool accepts the rules, and they fire as their test says', () => {
    const run = (...args) => execFileSync('promtool', args, {cwd: FOLDER, encoding: 'utf8'});
    assert.match(run('check', 'rules', 'weir-alerts.yaml'), /SUCCESS: \d+ rules found/);
    assert.match(run('test', 'rules', 'weir-alerts.test.yaml'), /SUCCESS/);
  });
});
