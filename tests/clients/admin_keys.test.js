// The life of keys that are made at run time, through the admin API and through `weir keys`.
import assert from 'node:assert/strict';
import {existsSync, statSync} from 'node:fs';
import path from 'node:path';
import {describe, test} from 'node:test';

import {ADMIN_KEY, Admin, adminOf, reload, run, send, statusOf, withAdmin} from './support/admin.js';
import {eventually} from './support/raw.js';
import {NAME, chatBody, inParallel, relayOf, startRelay, streamBody, target, upstreamOf} from './support/relay.js';
import {bearer, folderOf} from './support/routing.js';
import {SSE_FIELDS, chatReply, chunk, event, delta, head, jsonReply, replies, sleep} from './support/upstream.js';

const REVOKE_MS = 1_000;

const status = (weir, key, fields) => statusOf(weir, {headers: bearer(key), fields});

describe('admin: the life of a key', {timeout: 120_000}, () => {
  test('made, used, shown, listed, revoked, erased', async (t) => {
    const {weir, admin} = await adminOf(t, {keys: {file: 't'}});
    const made = await admin.create({
      name: 'ci',
      tenant: 'build',
      models: [NAME],
      limits: {requests_per_min: 100, tokens_per_min: 50_000, concurrent: 3, usd_per_day: 1.5, usd_per_month: 20},
      residency: 'any',
      priority: 'low',
      sharing: 'key',
      shadow: true,
    });
    assert.match(made.id, /^key_[0-9a-f]{24}$/);
    assert.match(made.key, /^weir-[A-Za-z0-9_-]{43}$/);
    assert.equal(await status(weir, made.key, {max_tokens: 10}), 200);
    const {usage, ...shown} = await admin.call('GET', `keys/${made.id}`);
    const {key, ...first} = made;
    assert.deepEqual(shown, first);
    assert.equal(shown.source, 'admin');
    assert.deepEqual(shown.limits, {
      requests_per_min: 100,
      tokens_per_min: 50_000,
      concurrent: 3,
      usd_per_day: 1.5,
      usd_per_month: 20,
    });
    assert.equal(usage.requests.limit, 100);
    assert.ok(usage.requests.remaining >= 99);
    assert.equal(usage.running_requests, 0);
    // 5 tokens of prompt at $2 and 2 of output at $8 a million.
    assert.equal(usage.day.spent_usd, 0.000026);
    assert.equal(usage.day.reserved_usd, 0);
    assert.equal(usage.day.limit_usd, 1.5);
    assert.equal(usage.month.spent_usd, 0.000026);
    assert.ok(usage.day.resets_in_s > 0 && usage.day.resets_in_s <= 86_400);
    const listed = await admin.all();
    assert.deepEqual(listed.map((k) => [k.name, k.source]), [['file', 'config'], ['ci', 'admin']]);
    assert.ok(!JSON.stringify(listed).includes(key));

    const revoked = await admin.call('POST', `keys/${made.id}/revoke`);
    assert.equal(revoked.revoked, true);
    assert.equal(await status(weir, key), 401);
    await admin.call('POST', `keys/${made.id}/revoke`); // once more changes nothing
    await admin.refused('PATCH', `keys/${made.id}`, {shadow: false}, 409, 'conflict');
    await admin.refused('POST', `keys/${made.id}/rotate`, {}, 409, 'conflict');
    const again = await admin.create({name: 'ci'}); // the name is free again
    assert.notEqual(again.id, made.id);
    await admin.refused('DELETE', `keys/${again.id}`, undefined, 409, 'conflict');
    assert.deepEqual(await admin.call('DELETE', `keys/${made.id}`), {id: made.id, erased: true});
    await admin.refused('GET', `keys/${made.id}`, undefined, 404, 'key_not_found');
    assert.equal(await status(weir, again.key), 200);
  });

  test('keys survive a restart and kill -9, and revoked ones stay revoked', async (t) => {
    const change = withAdmin(t);
    const upstream = await upstreamOf(t, replies(jsonReply(chatReply())));
    const targets = [target(upstream)];
    const first = await startRelay(targets, change);
    const admin = new Admin(first);
    const [kept, gone, turned] = await Promise.all(['kept', 'gone', 'turned'].map((name) => admin.create({name})));
    await admin.call('PATCH', `keys/${kept.id}`, {limits: {requests_per_min: 1_000}});
    await admin.call('POST', `keys/${gone.id}/revoke`);
    const fresh = await admin.call('POST', `keys/${turned.id}/rotate`, {grace_s: 3_600});
    await admin.call('PUT', 'tenants/build', {weight: 7});
    first.child.kill('SIGKILL');
    await first.ended;
    const second = await relayOf(t, targets, change);
    const check = async (weir) => {
      assert.equal(await status(weir, kept.key), 200);
      assert.equal(await status(weir, gone.key), 401);
      assert.equal(await status(weir, turned.key), 200); // its grace goes on
      assert.equal(await status(weir, fresh.key), 200);
      const now = await new Admin(weir).call('GET', `keys/${kept.id}`);
      assert.equal(now.limits.requests_per_min, 1_000);
      assert.equal((await new Admin(weir).call('GET', 'tenants/build')).weight, 7);
      assert.equal((await new Admin(weir).all()).length, 3);
    };
    await check(second);
    second.child.kill('SIGTERM');
    await second.ended;
    second.stop = () => {};
    await check(await relayOf(t, targets, change));
  });

  test('a revoked key ends its running stream, its waiting request and what it sends later', async (t) => {
    let started = 0;
    const {weir, admin} = await adminOf(t, {}, (request, socket) => {
      started += 1;
      if (!JSON.parse(request.body).stream) return; // never answered
      socket.write(head(200, {...SSE_FIELDS, 'transfer-encoding': 'chunked'}));
      const timer = setInterval(() => socket.write(chunk(event(delta({content: 'x'})))), 50);
      socket.on('close', () => clearInterval(timer));
    });
    const {id, key} = await admin.create({name: 'streams'});
    const other = await admin.create({name: 'other'});
    const endOf = async (k, body) => {
      const answer = await weir.post('/v1/chat/completions', body, bearer(k));
      let text = '';
      let how = 'whole';
      try {
        for await (const part of answer.body) text += Buffer.from(part).toString();
      } catch {
        how = 'cut';
      }
      return {how, status: answer.status, text, at: performance.now()};
    };
    const ends = [endOf(key, streamBody()), endOf(key, chatBody())];
    const stays = endOf(other.key, streamBody());
    await eventually('three requests', () => started === 3);
    await eventually('two run', async () => (await admin.call('GET', `keys/${id}`)).usage.running_requests === 2);
    await sleep(100);
    const begun = performance.now();
    await admin.call('POST', `keys/${id}/revoke`);
    assert.equal(await status(weir, key), 401);
    const [stream, waiting] = await Promise.all(ends);
    assert.deepEqual([stream.how, stream.status], ['cut', 200]);
    assert.equal(JSON.parse(stream.text.trimEnd().split('\n\n').at(-1).slice(6)).error.code, 'invalid_api_key');
    assert.deepEqual([waiting.how, waiting.status], ['whole', 401]);
    assert.equal(JSON.parse(waiting.text).error.code, 'invalid_api_key');
    for (const {at} of [stream, waiting]) assert.ok(at - begun < REVOKE_MS, `${at - begun} ms`);
    assert.equal((await admin.call('GET', `keys/${id}`)).usage.running_requests, 0);
    assert.equal((await admin.call('GET', `keys/${other.id}`)).usage.running_requests, 1);
    await admin.call('POST', `keys/${other.id}/revoke`);
    assert.equal((await stays).how, 'cut');
  });

  test('a rotated key has a new secret at once and the old one for its grace', async (t) => {
    const {weir, admin} = await adminOf(t);
    const made = await admin.create({name: 'turns', limits: {requests_per_min: 5}});
    const second = await admin.call('POST', `keys/${made.id}/rotate`, {grace_s: 2});
    const late = performance.now() + 3_100;
    assert.notEqual(second.key, made.key);
    assert.equal(second.id, made.id);
    assert.ok(Math.abs(second.old_key_until_s - Date.now() / 1000 - 2) < 2);
    assert.equal(await status(weir, made.key), 200);
    assert.equal(await status(weir, second.key), 200);
    assert.equal((await admin.call('GET', `keys/${made.id}`)).usage.requests.remaining, 3); // one account
    await sleep(late - performance.now());
    assert.equal(await status(weir, made.key), 401);
    assert.equal(await status(weir, second.key), 200);
    assert.equal((await admin.call('GET', `keys/${made.id}`)).old_key_until_s, null);
    const third = await admin.call('POST', `keys/${made.id}/rotate`); // no grace
    assert.equal(await status(weir, second.key), 401);
    assert.equal(await status(weir, third.key), 200);
    await admin.refused('POST', `keys/${made.id}/rotate`, {grace_s: -1}, 400);
    await admin.refused('POST', `keys/${made.id}/rotate`, {grace_s: 1e9}, 400);
  });

  test('a change is in force when it is answered', async (t) => {
    const {weir, admin} = await adminOf(t);
    const {id, key} = await admin.create({name: 'a'});
    for (let i = 0; i < 10; ++i) {
      await admin.call('PATCH', `keys/${id}`, {limits: {requests_per_min: 1}});
      const one = [await status(weir, key), await status(weir, key)];
      assert.ok(one.includes(429), `${one}`);
      await admin.call('PATCH', `keys/${id}`, {limits: {requests_per_min: null}});
      assert.equal(await status(weir, key), 200);
    }
    await admin.call('PATCH', `keys/${id}`, {limits: {usd_per_day: 0.000_001}});
    assert.equal(await status(weir, key, {max_tokens: 100}), 400);
    await admin.call('PATCH', `keys/${id}`, {limits: null, models: [NAME], priority: 'batch'});
    assert.equal(await status(weir, key, {max_tokens: 100}), 200);
    const now = await admin.call('PATCH', `keys/${id}`, {models: null, priority: null});
    assert.deepEqual([now.models, now.priority, now.limits.usd_per_day], [[], 'normal', null]);
  });
});

describe('admin: what is refused', {timeout: 120_000}, () => {
  test('bodies, by the field at fault', async (t) => {
    const {admin} = await adminOf(t);
    const {id} = await admin.create({name: 'a'});
    const rows = [
      ['POST', 'keys', '', null],
      ['POST', 'keys', '{', null],
      ['POST', 'keys', '[]', null],
      ['POST', 'keys', '{"name":"x","name":"y"}', null],
      ['POST', 'keys', {}, 'name'],
      ['POST', 'keys', {name: 7}, 'name'],
      ['POST', 'keys', {name: ''}, 'name'],
      ['POST', 'keys', {name: 'a b'}, 'name'],
      ['POST', 'keys', {name: 'a\nb'}, 'name'],
      ['POST', 'keys', {name: 'x'.repeat(257)}, 'name'],
      ['POST', 'keys', {name: 'b', tenant: 'ü'}, 'tenant'],
      ['POST', 'keys', {name: 'b', digest: 'x'}, 'digest'],
      ['POST', 'keys', {name: 'b', models: 'x'}, 'models'],
      ['POST', 'keys', {name: 'b', models: ['nowhere']}, 'models'],
      ['POST', 'keys', {name: 'b', models: [7]}, 'models'],
      ['POST', 'keys', {name: 'b', limits: []}, 'limits'],
      ['POST', 'keys', {name: 'b', limits: {rpm: 7}}, 'limits.rpm'],
      ['POST', 'keys', {name: 'b', limits: {requests_per_min: 0}}, 'limits.requests_per_min'],
      ['POST', 'keys', {name: 'b', limits: {requests_per_min: 1.5}}, 'limits.requests_per_min'],
      ['POST', 'keys', {name: 'b', limits: {tokens_per_min: 1e10}}, 'limits.tokens_per_min'],
      ['POST', 'keys', {name: 'b', limits: {concurrent: '7'}}, 'limits.concurrent'],
      ['POST', 'keys', {name: 'b', limits: {usd_per_day: 0}}, 'limits.usd_per_day'],
      ['POST', 'keys', {name: 'b', limits: {usd_per_day: -1}}, 'limits.usd_per_day'],
      ['POST', 'keys', {name: 'b', limits: {usd_per_month: 1e10}}, 'limits.usd_per_month'],
      ['POST', 'keys', {name: 'b', limits: {usd_per_month: 1e-10}}, 'limits.usd_per_month'],
      ['POST', 'keys', {name: 'b', residency: 'here'}, 'residency'],
      ['POST', 'keys', {name: 'b', priority: 3}, 'priority'],
      ['POST', 'keys', {name: 'b', sharing: ''}, 'sharing'],
      ['POST', 'keys', {name: 'b', shadow: 'yes'}, 'shadow'],
      ['PATCH', `keys/${id}`, {name: 'b'}, 'name'],
      ['PATCH', `keys/${id}`, {revoked: false}, 'revoked'],
      ['PATCH', `keys/${id}`, {limits: {x: 1}}, 'limits.x'],
      ['POST', `keys/${id}/rotate`, {grace: 1}, 'grace'],
      ['POST', `keys/${id}/revoke`, {why: 1}, 'why'],
      ['PUT', 'tenants/x', {}, 'weight'],
      ['PUT', 'tenants/x', {weight: 0}, 'weight'],
      ['PUT', 'tenants/x', {weight: 1, more: 2}, 'more'],
      ['PUT', 'tenants/a%20b', {weight: 1}, 'name'],
      ['PUT', 'tenants/a%2', {weight: 1}, null],
      ['GET', 'keys?limit=0', undefined, 'limit'],
      ['GET', 'keys?limit=1001', undefined, 'limit'],
      ['GET', 'keys?cursor=zz', undefined, 'cursor'],
      ['GET', 'keys?limit=1&limit=2', undefined, null],
      ['GET', 'keys?page=2', undefined, null],
    ];
    for (const [method, route, body, param] of rows) {
      const said = `${method} ${route} ${JSON.stringify(body)}`;
      const answer = await admin.send(method, route, body);
      assert.equal(answer.status, 400, `${said}: ${answer.text}`);
      assert.equal(answer.json.error.param, param, `${said}: ${answer.text}`);
    }
    const {data} = await admin.call('GET', 'keys');
    assert.deepEqual(data.map((k) => k.name), ['a']);
    await admin.refused('POST', 'keys', `{"name":"${'x'.repeat(1 << 20)}"}`, 413, 'request_too_large');
    for (const [method, route] of [['GET', ''], ['PATCH', ''], ['POST', '/rotate'], ['POST', '/revoke'], ['DELETE', '']])
      await admin.refused(method, `keys/key_0${route}`, method === 'PATCH' ? {} : undefined, 404, 'key_not_found');
  });

  test('a key of the configuration file is changed there alone', async (t) => {
    const {weir, admin, change} = await adminOf(t, {
      keys: {file: 't'},
      auth: {tenants: [{name: 't', weight: 3}]},
    });
    assert.equal((await admin.call('GET', 'keys/file')).source, 'config');
    for (const [method, route, body] of [
      ['PATCH', 'keys/file', {shadow: true}],
      ['POST', 'keys/file/rotate', {}],
      ['POST', 'keys/file/revoke'],
      ['DELETE', 'keys/file'],
      ['PUT', 'tenants/t', {weight: 9}],
    ]) {
      const error = await admin.refused(method, route, body, 409, 'conflict');
      assert.match(error.message, /configuration file/);
    }
    const taken = await admin.refused('POST', 'keys', {name: 'file'}, 409, 'conflict');
    assert.equal(taken.param, 'name');
    const {id} = await admin.create({name: 'later'});
    await admin.refused('POST', 'keys', {name: 'later'}, 409, 'conflict');
    assert.deepEqual((await admin.call('GET', 'tenants')).data, [
      {name: 'default', weight: 1, source: 'default', keys: 1},
      {name: 't', weight: 3, source: 'config', keys: 1},
    ]);
    // The file may not take what the ledger has.
    const config = structuredClone(weir.config);
    config.auth.keys.push({...config.auth.keys[0], name: 'later', digest: 'ab'.repeat(32)});
    weir.configure(config);
    await reload(weir, /reload refused[^]*'later'[^]*ledger/);
    assert.equal((await admin.call('GET', 'keys')).data.length, 2);
    await admin.call('POST', `keys/${id}/revoke`);
    await reload(weir, /reloaded/);
    assert.deepEqual((await admin.all()).map((k) => [k.name, k.source]).sort(), [
      ['file', 'config'],
      ['later', 'admin'],
      ['later', 'config'],
    ]);
    assert.ok(change.dir);
  });

  test('without a ledger, and with a ledger that another has', async (t) => {
    const {admin, weir} = await adminOf(t, {ledger: false, keys: {file: 't'}});
    assert.deepEqual((await admin.all()).map((k) => k.name), ['file']);
    for (const [method, route, body] of [
      ['POST', 'keys', {name: 'a'}],
      ['PUT', 'tenants/x', {weight: 2}],
      ['GET', 'ledger'],
    ]) {
      const error = await admin.refused(method, route, body, 409, 'conflict');
      assert.match(error.message, /auth\.ledger_dir/);
    }
    assert.equal((await (await fetch(`${weir.admin}/readyz`)).json()).status, 'ready');
    assert.equal((await admin.call('GET', 'keys/file')).usage.day, null);
  });
});

describe('admin: many at once', {timeout: 240_000}, () => {
  test('100 creates and 100 changes of one key: nothing is lost, nothing is there twice', async (t) => {
    const {weir, admin} = await adminOf(t);
    const names = Array.from({length: 100}, (_, i) => `k${i}`);
    const made = [];
    await inParallel(names, 100, async (name) => made.push(await admin.create({name})));
    assert.equal(new Set(made.map((k) => k.id)).size, 100);
    assert.equal(new Set(made.map((k) => k.key)).size, 100);
    await inParallel(made, 16, async ({key}) => assert.equal(await status(weir, key), 200));

    const same = await Promise.all(Array.from({length: 20}, () => admin.send('POST', 'keys', {name: 'same'})));
    assert.deepEqual(same.map((a) => a.status).sort(), [201, ...Array(19).fill(409)]);

    // Every writer changes a field of its own; each must be there at the end.
    const {id} = made[0];
    const fields = ['requests_per_min', 'tokens_per_min', 'concurrent', 'usd_per_day', 'usd_per_month'];
    await inParallel(Array.from({length: 100}, (_, i) => i), 100, (i) =>
      admin.call('PATCH', `keys/${id}`, {limits: {[fields[i % 5]]: 1_000 + i}}),
    );
    const {limits} = await admin.call('GET', `keys/${id}`);
    for (const [at, field] of fields.entries()) {
      assert.ok(limits[field] >= 1_000 && (limits[field] - 1_000) % 5 === at, JSON.stringify(limits));
    }

    const whole = (await admin.all()).map((k) => k.id);
    assert.equal(whole.length, 101);
    for (const limit of [1, 7, 100, 101, 1_000]) assert.deepEqual((await admin.all(limit)).map((k) => k.id), whole);
    // Pages hold while keys come and go: what was there all along is seen exactly once.
    const pages = await admin.call('GET', 'keys?limit=30');
    const others = [];
    for (let i = 0; i < 10; ++i) others.push((await admin.create({name: `more${i}`})).id);
    await admin.call('POST', `keys/${pages.data[29].id}/revoke`);
    await admin.call('DELETE', `keys/${pages.data[29].id}`);
    const seen = pages.data.map((k) => k.id);
    for (let next = pages.next; next;) {
      const page = await admin.call('GET', `keys?limit=30&cursor=${next}`);
      seen.push(...page.data.map((k) => k.id));
      next = page.next;
    }
    assert.deepEqual(seen.filter((k) => !others.includes(k)), whole);
  });

  test('a client that leaves changes nothing about what it asked for', async (t) => {
    const {admin, weir} = await adminOf(t);
    await inParallel(Array.from({length: 40}, (_, i) => i), 8, async (i) => {
      const abort = new AbortController();
      const gone = fetch(`${weir.admin}/admin/v1/keys`, {
        method: 'POST',
        headers: {'content-type': 'application/json', ...bearer(ADMIN_KEY)},
        body: JSON.stringify({name: `left${i}`}),
        signal: abort.signal,
      }).catch(() => {});
      await sleep(i % 10);
      abort.abort();
      await gone;
    });
    await admin.create({name: 'last'});
    const names = (await admin.all()).map((k) => k.name);
    assert.equal(new Set(names).size, names.length);
    assert.equal((await admin.call('GET', 'tenants/default')).keys, names.length);
  });
});

describe('weir keys', {timeout: 120_000}, () => {
  test('the same over the command line', async (t) => {
    const {weir, change} = await adminOf(t, {keys: {file: 't'}});
    const at = ['--url', weir.admin, '--admin-key-file', change.file];
    const keys = (...args) => run('keys', args[0], ...at, ...args.slice(1));
    const ok = async (...args) => {
      const done = await keys(...args);
      assert.equal(done.code, 0, done.err);
      return done.out;
    };
    const terms = ['--tenant', 'build', '--model', NAME, '--requests-per-min', '60', '--usd-per-month', '20.5'];
    const key = (await ok('create', '--name', 'ci', ...terms)).trim();
    assert.match(key, /^weir-\S{43}$/);
    assert.equal(await status(weir, key, {max_tokens: 5}), 200);
    const list = JSON.parse(await ok('list', '--json')).data;
    const {id} = list.find((k) => k.name === 'ci');
    assert.equal(list.length, 2);
    const table = await ok('list');
    assert.match(table, /^id +name +tenant/);
    assert.match(table, new RegExp(`${id} +ci +build +admin +open +60 `));
    assert.match(await ok('show', id), /usd_per_month +20\.5[^]*running +0/);
    const changed = JSON.parse(await ok('set', id, '--usd-per-month', 'none', '--concurrent', '4', '--json'));
    assert.deepEqual([changed.limits.usd_per_month, changed.limits.concurrent], [null, 4]);
    const fresh = (await ok('rotate', id, '--grace-s', '60')).trim();
    assert.equal(await status(weir, fresh), 200);
    assert.match(await ok('tenants'), /build +1 +default +1/);
    assert.match(await ok('tenants', '--name', 'build', '--weight', '4'), /build +4 +admin +1/);
    assert.match(await ok('revoke', id), /state +revoked/);
    assert.equal(await status(weir, fresh), 401);
  });

  test('errors say what to do', async (t) => {
    const {weir, change} = await adminOf(t);
    const dir = folderOf();
    const file = path.join(dir, 'new.key');
    const made = await run('keys', 'admin-key', '--file', file);
    assert.equal(made.code, 0, made.err);
    assert.match(made.out, /key_file: /);
    assert.ok(existsSync(file));
    assert.equal(statSync(file).mode & 0o777, 0o600);
    const rows = [
      [['keys', 'admin-key', '--file', file], 1, /exists/i],
      [['keys', 'list', '--url', weir.admin], 1, /--admin-key-file/],
      [['keys', 'list', '--url', weir.admin, '--admin-key-file', file], 1, /holds another/],
      [['keys', 'list', '--url', weir.admin, '--admin-key-file', `${dir}/none`], 2, /cannot be read/],
      [['keys', 'list', '--url', 'http://127.0.0.1:1'], 1, /admin address of a running weir/],
      [['keys', 'list', '--url', 'nowhere'], 2, /http:\/\/HOST:PORT/],
      [['keys', 'set', 'key_1', '--url', weir.admin, '--admin-key-file', change.file], 2, /say what to change/],
      [['keys', 'show', 'key_1', '--url', weir.admin, '--admin-key-file', change.file], 1, /no key with this id/],
      [
        ['keys', 'create', '--name', 'x', '--requests-per-min', 'many', '--url', weir.admin, '--admin-key-file', change.file],
        1,
        /limits\.requests_per_min/,
      ],
    ];
    for (const [args, code, said] of rows) {
      const done = await run(...args);
      assert.equal(done.code, code, `${args} ${done.err}`);
      assert.match(done.err, said, `${args}`);
    }
    const help = await run('keys', '--help');
    assert.match(help.out, /Examples:[^]*weir keys create/);
    const open = await adminOf(t, {key: null});
    const closed = await run('keys', 'list', '--url', open.weir.admin);
    assert.equal(closed.code, 1);
    assert.match(closed.err, /weir keys admin-key --file/);
    assert.equal((await send(open.weir, 'GET', '/admin/v1/keys')).status, 403);
  });
});
