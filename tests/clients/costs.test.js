// weir costs: its inputs, the three forms of its report, and inputs from traffic that a gateway has seen.
import assert from 'node:assert/strict';
import {readFileSync, writeFileSync} from 'node:fs';
import path from 'node:path';
import {describe, test} from 'node:test';

import {ADMIN_KEY, Admin, run, withAdmin} from './support/admin.js';
import {NAME, chatBody, relayOf, streamBody, target, upstreamOf} from './support/relay.js';
import {bearer, folderOf} from './support/routing.js';
import {chatEvents, chatReply, jsonReply, sse} from './support/upstream.js';

const K3 = path.join(import.meta.dirname, '../../configs/costs/kimi-k3.yaml');

async function exampleFile(edit = (text) => text) {
  const {code, out} = await run('costs', '--example');
  assert.equal(code, 0);
  const file = path.join(folderOf(), 'costs.yaml');
  writeFileSync(file, edit(out));
  return file;
}

async function reportOf(...args) {
  const {code, out, err} = await run('costs', ...args, '--json');
  assert.equal(code, 0, err);
  return JSON.parse(out);
}

const grouped = (whole) => whole.replace(/\B(?=(\d{3})+$)/g, ',');

// As the table has it; the amounts of the JSON have nine digits behind the point.
function shown(usd, digits) {
  const nano = BigInt(Math.round(usd * 1e9));
  const unit = 10n ** BigInt(9 - digits);
  const rounded = (nano + unit / 2n) / unit;
  const text = String(rounded).padStart(digits + 1, '0');
  return `$${grouped(text.slice(0, -digits))}.${text.slice(-digits)}`;
}

describe('weir costs', {timeout: 60_000}, () => {
  test('the example is a whole file of inputs', async () => {
    const file = await exampleFile();
    const {code, out, err} = await run('costs', file);
    assert.equal(code, 0, err);
    for (const part of ['COST', 'FLEET', 'BREAK-EVEN', 'ISOLATION', 'OPERATIONAL LOAD', 'LICENCE', '* self-hosted']) {
      assert.ok(out.includes(part), part);
    }
    assert.ok(!out.includes('MISSING'), out);
    assert.match(out, /(USE BOTH|SELF-HOST): 5% of the requests may not leave/);
  });

  test('faults name the line and what is allowed, all at once', async () => {
    const edit = (text) =>
      text.replace('peak_to_mean', 'peak_to_meen').replace('hit_rate: 0.9 ', 'hit_rate: 1.9 ').replace('gpu_mtbf_hours', 'mtbf');
    const {code, out, err} = await run('costs', await exampleFile(edit));
    assert.equal(code, 2);
    assert.equal(out, '');
    assert.match(err, /costs\.yaml:7:3: traffic\.peak_to_meen: unknown key; did you mean 'peak_to_mean'\?/);
    assert.match(err, /costs\.yaml:\d+:13: api\.hit_rate: '1\.9' is not a number from 0 to 1/);
    assert.match(err, /operations\.mtbf: unknown key; known here: .*gpu_mtbf_hours/);
    assert.equal(err.trim().split('\n').length, 3);
  });

  test('no file, none there, and options that belong to --live', async () => {
    const rows = [
      [[], /weir costs --example/],
      [['/nonexistent/costs.yaml'], /cannot be opened/],
      [[K3, '--since', '7d'], /--live/],
      [[K3, '--live', '--since', 'yesterday'], /expected a time back from now/],
      [[K3, '--json', '--nothing'], /nothing/],
    ];
    for (const [args, said] of rows) {
      const {code, err} = await run('costs', ...args);
      assert.equal(code, 2, args.join(' '));
      assert.match(err, said);
    }
  });

  test("Kimi K3's file names what is missing, and the API is the answer", async () => {
    const {verdict, missing, own, api} = await reportOf(K3);
    assert.equal(verdict.side, 'api');
    assert.equal(verdict.reason, 'inputs_missing');
    assert.ok(missing.some(({key}) => key === 'self_host.decode_tokens_per_s'));
    assert.ok(missing.every(({hint}) => hint.length > 0));
    assert.equal(own.cost, null);
    assert.equal(api.cost, null);
  });

  test('the JSON has the numbers of the table', async () => {
    const file = await exampleFile();
    const {own, api, break_even: even, operational_load: load} = await reportOf(file);
    const {out} = await run('costs', file);
    const rows = {
      'per hour': ['usd_per_hour', 2],
      'per month': ['usd_per_month', 2],
      'per request': ['usd_per_request', 6],
      'per accepted result': ['usd_per_accepted_result', 6],
      'per million prompt tokens': ['usd_per_million_prompt_tokens', 2],
      'per million output tokens': ['usd_per_million_output_tokens', 2],
      'per million tokens': ['usd_per_million_tokens', 2],
    };
    for (const [label, [name, digits]] of Object.entries(rows)) {
      const line = out.split('\n').find((l) => l.trim().startsWith(`${label} `));
      assert.deepEqual(line.trim().slice(label.length).trim().split(/ +/), [
        shown(own.cost[name], digits),
        shown(api.cost[name], digits),
      ]);
    }
    assert.ok(out.includes(`${grouped(String(Math.round(even.first_requests_per_hour.value)))} requests per hour`));
    assert.ok(out.includes(`${load.spares} kept, ${load.spares_needed} needed`));
  });

  test('the HTML report needs nothing else and runs nothing', async () => {
    const evil = `"<script>alert(1)</script><img alt=y>"`;
    const file = await exampleFile((text) => text.replace('name: hosted API', `name: ${evil}`));
    const html = path.join(folderOf(), 'costs.html');
    const {code, err} = await run('costs', file, '--html', html);
    assert.equal(code, 0, err);
    const text = readFileSync(html, 'utf8');
    assert.ok(text.startsWith('<!doctype html>') && text.endsWith('</html>\n'));
    assert.ok(text.includes('&lt;script&gt;alert(1)&lt;/script&gt;'));
    assert.ok(text.includes('<svg '));
    assert.doesNotMatch(text, /<(script|img|link|iframe|object|style [^>]*src)|\b(src|href)=|url\(|@import/i);
    const refused = await run('costs', file, '--html', '/nonexistent/costs.html');
    assert.equal(refused.code, 1);
    assert.match(refused.err, /cannot be written/);
  });
});

const usage = (prompt, cached, completion) => ({
  prompt_tokens: prompt,
  completion_tokens: completion,
  total_tokens: prompt + completion,
  prompt_tokens_details: {cached_tokens: cached},
});

// A replica behind one model and a hosted API behind another; the replica fails where the prompt says so.
async function seenTraffic(t, options = {}) {
  const own = await upstreamOf(t, (request, socket) => {
    const fails = request.body.includes('fail');
    const error = {error: {message: 'no', type: 'server_error'}};
    socket.write(fails ? jsonReply(error, {status: 500}) : jsonReply(chatReply('x', {usage: usage(1000, 400, 50)})));
  });
  const api = await upstreamOf(t, (_, socket) => socket.write(jsonReply(chatReply('x', {usage: usage(2000, 1800, 80)}))));
  const hosted = {
    ...target(api, {}, 'api'),
    hosted: true,
    price: {fresh_usd_per_mtok: 3, cached_usd_per_mtok: 0.3, output_usd_per_mtok: 15},
  };
  const keys = {a: 't', confined: {tenant: 't', residency: 'local_only'}};
  const admin = withAdmin(t, {keys, ...options});
  const weir = await relayOf(t, [target(own), hosted], (config) => ({
    ...admin(config),
    failover: {attempts: 1},
    models: [
      {name: NAME, targets: ['r1']},
      {name: 'bought', targets: ['api']},
    ],
  }));
  const ask = async (key, fields, status = 200) => {
    const answer = await weir.post('/v1/chat/completions', chatBody(fields), bearer(key));
    await answer.arrayBuffer();
    assert.equal(answer.status, status);
  };
  for (let i = 0; i < 5; ++i) await ask('a');
  for (let i = 0; i < 2; ++i) await ask('confined');
  await ask('a', {messages: [{role: 'user', content: 'fail'}]}, 500);
  for (let i = 0; i < 2; ++i) await ask('a', {model: 'bought'});
  return {weir, dir: admin.dir, file: admin.file};
}

const SENT = {
  requests_per_hour: 10, // within less than an hour
  peak_to_mean: 2, // the file's
  local_only_share: 0.2,
  prompt_tokens: (7 * 1000 + 2 * 2000) / 10,
  output_tokens: (7 * 50 + 2 * 80) / 10,
  own_hit_rate: 0.4,
  own_accepted_share: 7 / 8,
  api_hit_rate: 0.9,
  api_accepted_share: 1,
};

describe('weir costs --live', {timeout: 120_000}, () => {
  test('takes what was sent from the running weir, and from its ledger during and after', async (t) => {
    const {weir, dir, file} = await seenTraffic(t);
    const inputs = await exampleFile();
    const asked = ['--live', '--url', weir.admin, '--admin-key-file', file];
    const {inputs: taken, live} = await reportOf(inputs, ...asked);
    assert.deepEqual(taken, SENT);
    assert.equal(live.from, `${weir.admin}, the last 31d, all models`);
    assert.match(live.taken[0], /^10 requests in 1 hour$/);
    assert.match(live.taken.at(-1), /2 requests, 2 accepted, 0 failed, 0 retried, \$0\.00 at its prices; hit rate 90%/);

    const {targets, hours} = await new Admin(weir).call('GET', 'traffic');
    assert.equal(hours.reduce((sum, {requests}) => sum + requests, 0), 10);
    const [bought, own] = targets;
    // 200 x $3 + 1,800 x $0.30 + 80 x $15, in millionths: $0.00234, twice.
    assert.deepEqual([bought.target, bought.hosted, bought.cost_nano_usd], ['api', true, 2 * 2_340_000]);
    assert.deepEqual([own.target, own.requests, own.accepted, own.failed, own.local_only], ['r1', 8, 7, 1, 2]);

    const one = await reportOf(inputs, ...asked, '--model', 'bought', '--since', '2h');
    assert.equal(one.inputs.requests_per_hour, 2);
    assert.equal(one.inputs.prompt_tokens, 2000);

    weir.child.kill('SIGTERM');
    assert.equal((await weir.ended).code, 0);
    const after = await reportOf(inputs, '--live', '--ledger-dir', path.join(dir, 'ledger'));
    assert.deepEqual(after.inputs, SENT);
  });

  test('a result is accepted within what its rule asks, and within what its model asks where no rule speaks', async (t) => {
    const late = await upstreamOf(t, (_, socket) => setTimeout(() => socket.write(sse(chatEvents(['a', 'b']))), 300));
    const admin = withAdmin(t, {keys: {a: 't', strict: 't'}});
    const weir = await relayOf(t, [target(late)], (config) => ({
      ...admin(config),
      rules: [{name: 'quick', when: {keys: ['strict']}, ttft_ms: 100}],
    }));
    for (const key of ['a', 'a', 'strict']) {
      const answer = await weir.post('/v1/chat/completions', streamBody(), bearer(key));
      assert.match(await answer.text(), /\[DONE\]/);
    }
    const {targets} = await new Admin(weir).call('GET', 'traffic');
    assert.deepEqual(targets.map(({requests, accepted}) => [requests, accepted]), [[3, 2]]);
  });

  test('queries are strict', async (t) => {
    const {weir} = await seenTraffic(t);
    const admin = new Admin(weir);
    for (const query of ['since=x', 'since=-1', 'since=1&since=2', 'model=', 'model=%zz', 'x=1', 'since']) {
      await admin.refused('GET', `traffic?${query}`, undefined, 400);
    }
    const none = await admin.call('GET', 'traffic?since=99999999999&model=a%20b');
    assert.deepEqual([none.hours, none.targets], [[], []]);
  });

  test('says why where there is no traffic to take', async (t) => {
    const inputs = await exampleFile();
    const bare = await seenTraffic(t, {ledger: false});
    const rows = [
      [['--url', bare.weir.admin, '--admin-key-file', bare.file], /there is no ledger: set auth\.ledger_dir/],
      [['--url', bare.weir.admin], /give the server's admin\.key_file/],
      [['--url', 'http://127.0.0.1:1'], /is that the admin address of a running weir/],
      [['--ledger-dir', folderOf()], /is no ledger that can be read/],
    ];
    for (const [args, said] of rows) {
      const {code, out, err} = await run('costs', inputs, '--live', ...args);
      assert.equal(code, 1, err);
      assert.equal(out, '');
      assert.match(err, said);
    }
    assert.ok(!bare.weir.log.includes(ADMIN_KEY));
  });
});
