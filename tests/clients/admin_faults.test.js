// What an operator meets: connections that are all taken, a full disk at the start, keys in two places, keys and
// secrets that a reload changes, pages that reach for this machine. Cases carry the names of the faults.
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {chmodSync, mkdirSync, statSync, writeFileSync} from 'node:fs';
import path from 'node:path';
import {describe, test} from 'node:test';

import {Admin, adminOf, diskOf, reload, run, send, statusOf, withAdmin} from './support/admin.js';
import {Raw, eventually} from './support/raw.js';
import {SLOW, chatBody, logLine, relayOf, startRelay, streamBody, target, upstreamOf} from './support/relay.js';
import {bearer, folderOf} from './support/routing.js';
import {SSE_FIELDS, chatReply, chunk, delta, event, head, jsonReply, replies} from './support/upstream.js';

const CUT_MS = SLOW ? 4_000 : 1_000;
const NOWHERE = [target({base: 'http://127.0.0.1:1/v1'})];

const status = (weir, key, headers = {}) => statusOf(weir, {headers: {...(key ? bearer(key) : {}), ...headers}});

describe('admin: faults', {timeout: 120_000}, () => {
  test('idle clients that take every connection do not shut out revocation, metrics and probes', async (t) => {
    const {weir, admin} = await adminOf(t, {limits: {connections: 20}});
    const {id} = await admin.create({name: 'leaked'});
    const idle = await Promise.all(Array.from({length: 25}, () => Raw.connect(weir.url)));
    t.after(() => idle.forEach((raw) => raw.drop()));
    await eventually('none is left', async () => {
      const late = await Raw.connect(weir.url);
      return String(await late.toEnd()).startsWith('HTTP/1.1 503');
    });
    await admin.call('POST', `keys/${id}/revoke`);
    for (const route of ['/metrics', '/healthz', '/readyz']) {
      assert.equal((await send(weir, 'GET', route)).status, 200, route);
    }
  });

  test('a disk that is full at the start is refused in words', async (t) => {
    const disk = diskOf(t, '1m');
    if (!disk) return t.skip('mounting is not allowed here');
    const change = withAdmin(t, {auth: {ledger_dir: path.join(disk, 'ledger')}});
    const wants = (said) =>
      assert.rejects(startRelay(NOWHERE, change), (error) => {
        assert.doesNotMatch(error.message, /assert|damaged|terminate/i);
        return said.test(error.message);
      });
    await wants(/no space for the ledger in .*free at least/);
    const resize = (size) => execFileSync('mount', ['-o', `remount,size=${size}`, disk]);
    resize('64m');
    const weir = await startRelay(NOWHERE, change);
    await new Admin(weir).create({name: 'a'});
    weir.child.kill('SIGKILL'); // what it wrote is still in its log, and goes to a table at the next start
    await weir.ended;
    try {
      for (;;) writeFileSync(path.join(disk, 'fill'), Buffer.alloc(64 << 10), {flag: 'a'});
    } catch (error) {
      assert.equal(error.code, 'ENOSPC');
    }
    await wants(/no space for the ledger/);
    execFileSync('rm', [path.join(disk, 'fill')]);
    const again = await relayOf(t, NOWHERE, change);
    assert.equal((await new Admin(again).all()).length, 1);
  });

  test('a key of the file named as a living key of the ledger is refused, at a reload and at a start', async (t) => {
    const {weir, admin, change, targets} = await adminOf(t);
    const {id, key} = await admin.create({name: 'real'});
    const impostor = (config) => {
      const changed = change(config);
      const entry = {name: id, tenant: 't', digest: '0'.repeat(64)};
      return {...changed, auth: {...changed.auth, keys: [entry]}};
    };
    const before = weir.config;
    weir.configure({...before, auth: {...before.auth, keys: impostor({}).auth.keys}});
    await reload(weir, /reload refused.*is also in the ledger/);
    assert.equal(await status(weir, key), 200);
    await admin.call('POST', `keys/${id}/revoke`);
    assert.equal(await status(weir, key), 401);
    await reload(weir, /reload refused.*is also in the ledger/); // its id stays taken
    weir.child.kill('SIGTERM');
    await weir.ended;
    weir.stop = () => {};
    await assert.rejects(startRelay(targets, impostor), /is also in the ledger/);
  });

  test('a key that a reload removes is cut within a second; it may come back', async (t) => {
    const {weir} = await adminOf(t, {keys: {goes: 't', stays: 't'}}, (request, socket) => {
      if (!JSON.parse(request.body).stream) return void socket.write(jsonReply(chatReply()));
      socket.write(head(200, {...SSE_FIELDS, 'transfer-encoding': 'chunked'}));
      const timer = setInterval(() => socket.write(chunk(event(delta({content: 'x'})))), 50);
      socket.on('close', () => clearInterval(timer));
    });
    const stream = async (key) => {
      const answer = await weir.post('/v1/chat/completions', streamBody(), bearer(key));
      const out = {text: ''};
      const read = async () => {
        for await (const part of answer.body) out.text += Buffer.from(part).toString();
      };
      out.ended = read().catch(() => {}).then(() => performance.now());
      await eventually('it streams', () => out.text.includes('"x"'));
      return out;
    };
    const [goes, stays] = [await stream('goes'), await stream('stays')];
    const both = weir.config;
    weir.configure({...both, auth: {...both.auth, keys: both.auth.keys.filter(({name}) => name === 'stays')}});
    const begun = performance.now();
    await reload(weir, /reloaded/);
    assert.ok((await goes.ended) - begun < CUT_MS);
    assert.match(goes.text, /invalid_api_key/);
    assert.equal(await status(weir, 'goes'), 401);
    const size = stays.text.length;
    await eventually('the other goes on', () => stays.text.length > size);
    weir.configure(both);
    await reload(weir, /reloaded/);
    assert.equal(await status(weir, 'goes'), 200);
  });

  test('another secret in the file is refused at a reload, with what to do', async (t) => {
    const {weir, admin} = await adminOf(t, {keys: {file: 't'}});
    const {key} = await admin.create({name: 'made'});
    const {secret_file} = weir.config.auth;
    writeFileSync(secret_file, 'another secret of thirty-two bytes', {mode: 0o600});
    await reload(weir, /reload refused.*secret_file.*put the old one back.*restart/);
    assert.doesNotMatch(weir.log, /another secret of/);
    for (const each of ['file', key]) assert.equal(await status(weir, each), 200);
  });

  test('another secret in the file is refused at a start beside keys made with the old one', async (t) => {
    const change = withAdmin(t);
    const upstream = await upstreamOf(t, replies(jsonReply(chatReply())));
    const first = await startRelay([target(upstream)], change);
    const {key} = await new Admin(first).create({name: 'made'});
    await first.stop();
    const other = path.join(change.dir, 'other');
    writeFileSync(other, 'another secret of thirty-two bytes', {mode: 0o600});
    const swapped = (config) => ({...change(config), auth: {...change(config).auth, secret_file: other}});
    await assert.rejects(startRelay([target(upstream)], swapped), /secret_file.*the keys of the ledger.*put the old one back/);
    const again = await relayOf(t, [target(upstream)], change);
    assert.equal(await status(again, key), 200);
  });

  test('a line of the log is one line of valid JSON whatever a client calls a model', async (t) => {
    const {weir} = await adminOf(t);
    for (const model of ['é'.repeat(300), `a${'你'.repeat(200)}`, '\u001b[31m\u0007\u009b', '\u2028', '🎉'.repeat(80)]) {
      const answer = await weir.post('/v1/chat/completions', {...chatBody(), model}, {});
      const text = Buffer.from(await answer.arrayBuffer());
      new TextDecoder('utf-8', {fatal: true}).decode(text);
      assert.ok(await logLine(weir, {headers: Object.fromEntries(answer.headers)}));
    }
    assert.doesNotMatch(weir.log, /[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028]/);
  });
});

describe('a machine that is open to its own clients', {timeout: 60_000}, () => {
  test('DNS rebinding, cross-site posts: a page from elsewhere is not one of them', async (t) => {
    const upstream = await upstreamOf(t, replies(jsonReply(chatReply())));
    const weir = await relayOf(t, [target(upstream)], (config) => config);
    const {port} = new URL(weir.url);
    const body = JSON.stringify(chatBody());
    const post = async (fields) => {
      const raw = await Raw.connect(weir.url);
      const lines = Object.entries({'content-type': 'application/json', ...fields}).map(([k, v]) => `${k}: ${v}\r\n`);
      raw.send(
        `POST /v1/chat/completions HTTP/1.1\r\n${lines.join('')}content-length: ${body.length}\r\n\r\n${body}`,
      );
      const {status: got} = await raw.response();
      raw.drop();
      return got;
    };
    for (const host of ['localhost', `localhost:${port}`, `127.0.0.1:${port}`, `[::1]:${port}`]) {
      assert.equal(await post({host}), 200, host);
      assert.equal(await post({host, origin: `http://${host}`, 'sec-fetch-site': 'same-origin'}), 200, host);
    }
    for (const host of ['evil.example', `evil.example:${port}`, 'localhost.evil.example', '10.0.0.1', '0.0.0.0']) {
      assert.equal(await post({host}), 421, host);
    }
    for (const page of [{origin: 'https://evil.example'}, {origin: 'null'}, {'sec-fetch-site': 'cross-site'}]) {
      assert.equal(await post({host: 'localhost', ...page}), 403, JSON.stringify(page));
    }
    assert.equal((await fetch(`${weir.url}/healthz`, {headers: {origin: 'https://evil.example'}})).status, 200);
  });

  test('a client with a key may be a page, and the gateway may have any name', async (t) => {
    const {weir} = await adminOf(t, {keys: {file: 't'}, auth: {loopback_open: true}});
    assert.equal(await status(weir, 'file', {origin: 'https://app.example'}), 200);
    assert.equal(await status(weir, 'wrong', {origin: 'https://app.example'}), 403);
    assert.equal(await status(weir), 200);
  });
});

describe('configurations that are at fault', {timeout: 60_000}, () => {
  test('hosts that are none, and folders that are not the ledger\u2019s own', async (t) => {
    const dir = folderOf();
    const file = path.join(dir, 'weir.yaml');
    const secret_file = path.join(dir, 'secret');
    writeFileSync(secret_file, 'a secret of thirty-two bytes or so', {mode: 0o600});
    const check = (change) => {
      const config = {
        listen: '127.0.0.1:0',
        admin: {listen: '127.0.0.1:0', ...change.admin},
        auth: {loopback_open: true, secret_file, ...change.auth},
        targets: NOWHERE,
        models: [{name: 'm', targets: [NOWHERE[0].name]}],
      };
      writeFileSync(file, JSON.stringify(config));
      return run('serve', '--config', file, '--check');
    };
    for (const host of ['*', '', 'a b', 'http://x', 'x/', '*.example', 'x:', 'x:0', 'a@b', 'é']) {
      const {code, err} = await check({admin: {hosts: [host]}});
      assert.equal(code, 2, host);
      assert.match(err, /admin\.hosts: .*is no host/, host);
    }
    for (const ledger_dir of ['.', './', '..', '/', dir, `${dir}/`, `${dir}/x/..`, '']) {
      const {code, err} = await check({auth: {ledger_dir}});
      assert.equal(code, 2, ledger_dir);
      assert.match(err, /auth\.ledger_dir: /, ledger_dir);
    }
    const good = {admin: {hosts: ['box', 'box:1', 'a.example', '[::1]:9']}, auth: {ledger_dir: 'ledger/'}};
    const {code, err} = await check(good);
    assert.equal(code, 0, err);
  });

  test('a ledger that others may enter is closed at the start', async (t) => {
    const change = withAdmin(t);
    const ledger = path.join(change.dir, 'ledger');
    mkdirSync(ledger);
    chmodSync(ledger, 0o755);
    await relayOf(t, NOWHERE, change);
    assert.equal(statSync(ledger).mode & 0o777, 0o700);
  });
});
