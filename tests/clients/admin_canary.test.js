// Secrets with a mark of their own over every path that succeeds or fails, at the highest log level: they appear
// nowhere they should not.
import assert from 'node:assert/strict';
import {readFileSync, readdirSync, rmSync, statSync, writeFileSync} from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import {describe, test} from 'node:test';

import {Admin, diskOf, reload, run, send, withAdmin} from './support/admin.js';
import {eventually} from './support/raw.js';
import {SLOW, chatBody, relayOf, streamBody, target, upstreamOf} from './support/relay.js';
import {bearer, folderOf} from './support/routing.js';
import {chatEvents, chatReply, jsonReply, sleep, sse} from './support/upstream.js';

const CANARY = {
  client: 'canary-client-key-8c1f2d7e9b3a',
  unknown: 'canary-unknown-key-51d7c6f0aa92',
  upstream: 'canary-upstream-key-77ab0e4f1c63',
  admin: 'canary-admin-key-0f9e8d7c6b5a49382716',
  prompt: 'canary-prompt-e2b4a6c8d0f1',
  site: 'a secret of thirty-two bytes or so',
};

// Every file below these folders, whatever it is.
function* files(...folders) {
  for (const folder of folders) {
    for (const name of readdirSync(folder, {recursive: true})) {
      const file = path.join(folder, name);
      if (statSync(file).isFile()) yield file;
    }
  }
}

class Sightings {
  found = [];

  constructor(secrets) {
    this.secrets = secrets;
  }

  look(where, text) {
    for (const [name, secret] of Object.entries(this.secrets)) {
      for (const form of [secret, Buffer.from(secret).toString('base64').replace(/=+$/, ''), encodeURIComponent(secret)])
        if (text.includes(form)) this.found.push(`${name} in ${where}`);
    }
  }
}

// A request as a client sends it; everything that came back, however it ended.
function ask(url, method, body, headers = {}) {
  return new Promise((resolve) => {
    const bytes = body === undefined ? '' : typeof body === 'string' ? body : JSON.stringify(body);
    const request = http.request(url, {
      method,
      agent: false,
      headers: {'content-type': 'application/json', 'content-length': Buffer.byteLength(bytes), ...headers},
    });
    request.on('error', (error) => resolve({status: 0, text: String(error), headers: {}}));
    request.on('response', (answer) => {
      let text = '';
      const done = () => resolve({status: answer.statusCode, text, headers: answer.headers});
      answer.setEncoding('utf8').on('data', (part) => (text += part)).on('end', done).on('error', done);
    });
    request.end(bytes);
  });
}

// What the target does next, by what the prompt asks for. Its own errors name no secret, but it is told one.
const behaviours = {
  ok: (socket) => socket.write(jsonReply(chatReply())),
  stream: (socket) => socket.write(sse(chatEvents())),
  broken: (socket) => socket.end(sse(chatEvents()).subarray(0, 400)),
  gone: (socket) => socket.destroy(),
  refused: (socket) => socket.write(jsonReply({error: {message: 'no', type: 'x', code: 'y'}}, {status: 401})),
  failed: (socket) => socket.write(jsonReply('not even JSON', {status: 500})),
  nonsense: (socket) => socket.end('HTTP/9 what\r\n\r\n'),
  hangs: () => {},
};

describe('canary secrets', {timeout: 240_000}, () => {
  test('appear in no log, metric, error, header or file', async (t) => {
    const key_dir = folderOf();
    const upstream_key = path.join(key_dir, 'upstream.key');
    writeFileSync(upstream_key, CANARY.upstream, {mode: 0o600});
    const state_dir = folderOf();
    const change = withAdmin(t, {
      key: CANARY.admin,
      keys: {[CANARY.client]: {tenant: 't'}},
      log: {level: 'debug', access: true},
      routing: {state_dir},
      limits: {request_timeout_ms: 700, first_token_timeout_ms: 700},
    });
    const upstream = await upstreamOf(t, (request, socket) => {
      assert.equal(request.headers.authorization, `Bearer ${CANARY.upstream}`);
      const what = /do-(\w+)/.exec(String(request.body))[1];
      behaviours[what](socket);
    });
    const targets = [
      {
        ...target(upstream, {api_key_file: upstream_key}),
        cache: {capacity_tokens: 100_000},
        price: {fresh_usd_per_mtok: 2, output_usd_per_mtok: 8},
      },
    ];
    // A key's name goes to the log, and here the names of keys are the keys: this one has a name of its own.
    const named = (config, dir) => {
      const changed = change(config, dir);
      changed.auth.keys[0].name = 'the-client';
      return changed;
    };
    const weir = await relayOf(t, targets, named);
    const admin = new Admin(weir, CANARY.admin);
    const made = await admin.create({name: 'limited', limits: {requests_per_min: 3}});
    const poor = await admin.create({name: 'poor', limits: {usd_per_day: 0.001}});
    const few = await admin.create({name: 'few', limits: {tokens_per_min: 10}});
    const old = await admin.create({name: 'old'});
    const fresh = await admin.call('POST', `keys/${old.id}/rotate`, {grace_s: 100});
    const secrets = {
      ...CANARY,
      made: made.key,
      poor: poor.key,
      few: few.key,
      old: old.key,
      fresh: fresh.key,
    };
    const seen = new Sightings(secrets);

    const post = async (what, key, {fields = {}, prompt = true, body} = {}) => {
      const content = `do-${what} ${prompt ? CANARY.prompt : ''}`;
      const request = body ?? (/stream|broken/.test(what) ? streamBody : chatBody)({messages: [{role: 'user', content}], ...fields});
      const answer = await ask(`${weir.url}/v1/chat/completions`, 'POST', request, bearer(key));
      seen.look(`the answer to ${what}`, answer.text);
      seen.look(`the headers of ${what}`, JSON.stringify(answer.headers));
      return answer.status;
    };
    const statuses = {};
    for (const what of Object.keys(behaviours)) statuses[what] = await post(what, CANARY.client);
    assert.equal(statuses.ok, 200);
    assert.equal(statuses.stream, 200);
    assert.ok(Object.values(statuses).filter((s) => s >= 500).length >= 4, JSON.stringify(statuses));
    assert.equal(await post('ok', CANARY.unknown), 401);
    assert.equal(await post('ok', CANARY.admin), 401);
    assert.equal(await post('ok', `${CANARY.client}x`), 401);
    for (let i = 0; i < 4; ++i) await post('ok', made.key);
    assert.equal(await post('ok', made.key), 429);
    assert.equal(await post('ok', poor.key, {fields: {max_tokens: 1_000_000}}), 400);
    assert.equal(await post('ok', few.key), 400);
    assert.equal(await post('ok', old.key), 200);
    assert.equal(await post('ok', fresh.key), 200);
    for (const body of ['', '{', `{"model":"${'x'.repeat(10)}`, `{"messages":[{"content":"${'['.repeat(100)}`])
      await post('ok', CANARY.client, {body});
    await post('ok', CANARY.client, {fields: {max_tokens: -1, n: 'many'}});
    await post('ok', CANARY.client, {fields: {model: 'none'}});

    const admins = [
      ['POST', 'keys', {name: 'limited'}],
      ['POST', 'keys', {name: 7}],
      ['POST', 'keys', '{"name":'],
      ['PATCH', `keys/${made.id}`, {limits: {requests_per_min: 0}}],
      ['PATCH', `keys/the-client`, {shadow: true}],
      ['POST', 'keys/key_0/revoke', undefined],
      ['GET', 'keys', undefined],
      ['GET', `keys/${old.id}`, undefined],
      ['GET', 'tenants', undefined],
      ['GET', 'ledger', undefined],
    ];
    for (const key of [CANARY.admin, CANARY.unknown, CANARY.client]) {
      for (const [method, route, body] of admins) {
        const headers = {authorization: `Bearer ${key}`};
        const answer = await send(weir, method, `/admin/v1/${route}`, body, headers);
        seen.look(`the answer to ${method} ${route}`, answer.text + JSON.stringify(answer.headers));
        assert.ok(key === CANARY.admin || answer.status === 401);
      }
    }
    const foreign = await send(weir, 'GET', '/admin/v1/keys', undefined, {host: 'evil', 'x-admin-key': CANARY.admin});
    seen.look('the answer to a foreign host', foreign.text);
    for (const args of [['list'], ['show', old.id], ['show', 'none'], ['create', '--name', 'limited']]) {
      const done = await run('keys', args[0], ...args.slice(1), '--url', weir.admin, '--admin-key-file', change.file);
      seen.look(`weir keys ${args[0]}`, done.out + done.err);
    }
    await admin.call('POST', `keys/${fresh.id}/revoke`);
    assert.equal(await post('ok', fresh.key), 401);
    await reload(weir, /reloaded/);
    seen.look('metrics', (await (await fetch(`${weir.admin}/metrics`)).text()));
    seen.look('readyz', (await (await fetch(`${weir.url}/readyz`)).text()));
    await sleep(300);
    weir.child.kill('SIGTERM');
    await weir.ended;
    weir.stop = () => {};
    seen.look('the log', weir.log);
    seen.look('standard output', weir.out);
    // The log did see these requests: else it would prove nothing.
    assert.match(weir.log, /"key":"limited"/);
    assert.match(weir.log, /admin: rotated key/);
    let bytes = 0;
    for (const file of files(path.join(change.dir, 'ledger'), state_dir)) {
      const content = readFileSync(file, 'latin1');
      bytes += content.length;
      seen.look(file, content);
    }
    assert.ok(bytes > 1_000, `${bytes}`);
    assert.deepEqual([...new Set(seen.found)], []);
    rmSync(weir.dir, {recursive: true, force: true});
  });

  test('appear in nothing that a full disk causes, and what it refuses comes back by itself', async (t) => {
    const disk = diskOf(t, '16m');
    if (!disk) return t.skip('mounting is not allowed here');
    const change = withAdmin(t, {
      key: CANARY.admin,
      log: {level: 'debug', access: true},
      auth: {ledger_dir: path.join(disk, 'ledger')},
    });
    const upstream = await upstreamOf(t, (request, socket) => behaviours.ok(socket));
    const weir = await relayOf(t, [{...target(upstream), price: {output_usd_per_mtok: 8, fresh_usd_per_mtok: 2}}], change);
    const admin = new Admin(weir, CANARY.admin);
    const rich = await admin.create({name: 'rich', limits: {usd_per_day: 100}});
    const seen = new Sightings({...CANARY, rich: rich.key});
    const prompt = chatBody({messages: [{role: 'user', content: CANARY.prompt}], max_tokens: 5});
    const post = async () => {
      const answer = await ask(`${weir.url}/v1/chat/completions`, 'POST', prompt, bearer(rich.key));
      seen.look('an answer', answer.text + JSON.stringify(answer.headers));
      return answer;
    };
    assert.equal((await post()).status, 200);
    const fill = path.join(disk, 'fill');
    try {
      for (let size = 1 << 20; size >= 512; size >>= 1) {
        try {
          for (;;) writeFileSync(fill, Buffer.alloc(size), {flag: 'a'});
        } catch (error) {
          assert.equal(error.code, 'ENOSPC');
        }
      }
      await eventually('a refusal', async () => (await post()).status === 503);
      const refused = await admin.send('POST', 'keys', {name: 'more'});
      assert.equal(refused.status, 503, refused.text);
      assert.ok(Number(refused.headers['retry-after']) > 0);
      seen.look('a refused create', refused.text);
      const ready = await fetch(`${weir.admin}/readyz`);
      assert.equal(ready.status, 200);
      assert.deepEqual(await ready.json(), {status: 'degraded', reason: 'ledger full_disk'});
      assert.equal((await admin.call('GET', 'ledger')).health.reason, 'full_disk');
      assert.deepEqual(await weir.metric(/^weir_ledger_healthy/), [0]);
    } finally {
      rmSync(fill, {force: true});
    }
    await eventually('it goes on', async () => (await post()).status === 200);
    await admin.create({name: 'more'});
    assert.equal((await (await fetch(`${weir.admin}/readyz`)).json()).status, 'ready');
    assert.deepEqual(await weir.metric(/^weir_ledger_healthy/), [1]);
    seen.look('the log', weir.log);
    assert.deepEqual([...new Set(seen.found)], []);
  });

  test('appear in nothing that a broken disk causes, and no money is spent behind it', async (t) => {
    if (SLOW) return t.skip('a sanitizer wants to be loaded before the disk that breaks');
    const change = withAdmin(t, {key: CANARY.admin, log: {level: 'debug', access: true}});
    const upstream = await upstreamOf(t, (request, socket) => behaviours.ok(socket));
    process.env.LD_PRELOAD = process.env.WEIR_FAILING_DISK;
    const priced = {...target(upstream), price: {output_usd_per_mtok: 8, fresh_usd_per_mtok: 2}};
    const weir = await relayOf(t, [priced], change).finally(() => delete process.env.LD_PRELOAD);
    const admin = new Admin(weir, CANARY.admin);
    const rich = await admin.create({name: 'rich', limits: {usd_per_day: 100}});
    const free = await admin.create({name: 'free'});
    const seen = new Sightings({...CANARY, rich: rich.key, free: free.key});
    const prompt = chatBody({messages: [{role: 'user', content: CANARY.prompt}], max_tokens: 5});
    const post = async (key) => {
      const answer = await ask(`${weir.url}/v1/chat/completions`, 'POST', prompt, bearer(key));
      seen.look('an answer', answer.text + JSON.stringify(answer.headers));
      return answer.status;
    };
    assert.equal(await post(rich.key), 200);
    const ledger = path.join(change.dir, 'ledger');
    const inside = readdirSync(ledger, {recursive: true}).map((name) => path.join(ledger, name));
    for (const folder of [ledger, ...inside]) {
      if (statSync(folder).isDirectory()) writeFileSync(path.join(folder, 'broken'), '');
    }
    assert.equal(await post(rich.key), 503);
    const served = upstream.requests.length;
    assert.equal(await post(rich.key), 503);
    assert.equal(upstream.requests.length, served);
    assert.equal(await post(free.key), 200); // who has no budget needs no ledger
    const refused = await admin.send('POST', 'keys', {name: 'more'});
    assert.equal(refused.status, 503, refused.text);
    seen.look('a refused create', refused.text);
    assert.equal((await admin.call('GET', 'ledger')).health.reason, 'failed');
    assert.deepEqual(await weir.metric(/^weir_ledger_healthy/), [0]);
    seen.look('metrics', await (await fetch(`${weir.admin}/metrics`)).text());
    seen.look('the log', weir.log);
    assert.match(weir.log, /ledger/);
    assert.deepEqual([...new Set(seen.found)], []);
  });
});
