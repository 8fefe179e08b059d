// Who may use the admin listener, route by route.
import assert from 'node:assert/strict';
import {chmodSync, writeFileSync} from 'node:fs';
import {describe, test} from 'node:test';

import {ADMIN_KEY, Admin, adminOf, send, withAdmin} from './support/admin.js';
import {eventually} from './support/raw.js';
import {startRelay, target} from './support/relay.js';

const OPEN = new Set(['/metrics', '/healthz', '/readyz', '/admin/v1/openapi.json']);
const METHODS = ['get', 'post', 'put', 'patch', 'delete'];
const key = {authorization: `Bearer ${ADMIN_KEY}`};

// Every route of the document that weir serves, with a body that would do something.
async function routesOf(weir, id) {
  const {json} = await send(weir, 'GET', '/admin/v1/openapi.json');
  assert.equal(json.openapi, '3.1.0');
  const bodies = {createKey: {name: 'new'}, changeKey: {shadow: true}, putTenant: {weight: 2}};
  const out = [];
  for (const [pattern, operations] of Object.entries(json.paths)) {
    for (const method of METHODS.filter((m) => m in operations)) {
      const {operationId} = operations[method];
      const explain = {model: 'fox', messages: [{role: 'user', content: 'x'}]};
      out.push({
        method: method.toUpperCase(),
        pattern,
        route: pattern.replace('{id}', id).replace('{name}', 'default'),
        body: operationId === 'explain' ? explain : bodies[operationId],
      });
    }
  }
  assert.equal(out.length, 18);
  return out;
}

describe('admin: access', {timeout: 120_000}, () => {
  test('every route with no key, a wrong key, a foreign host, a foreign page: none is served', async (t) => {
    const {weir, admin} = await adminOf(t);
    const {id} = await admin.create({name: 'there'});
    const before = await admin.all();
    const wrong = [
      {authorization: 'Bearer '},
      {authorization: `Bearer ${ADMIN_KEY}x`},
      {authorization: `Bearer ${ADMIN_KEY.slice(0, -1)}`},
      {authorization: `Basic ${Buffer.from(`admin:${ADMIN_KEY}`).toString('base64')}`},
      {authorization: ADMIN_KEY},
      {'x-admin-key': 'x'.repeat(5_000)},
      {'x-api-key': ADMIN_KEY},
      {authorization: `Bearer ${(await admin.create({name: 'client'})).key}`},
      {authorization: 'Bearer wrong', 'x-admin-key': ADMIN_KEY},
      {cookie: `key=${ADMIN_KEY}`},
    ];
    const hosts = ['evil.example', 'evil.example:9090', 'localhost.evil.example', '169.254.169.254', '0.0.0.0',
      'localhost.', '10.0.0.1', '[::]', '127.0.0.1.evil.example', 'xn--localhost-1a'];
    const pages = [
      {'sec-fetch-site': 'cross-site'},
      {'sec-fetch-site': 'same-site'},
      {'sec-fetch-site': 'odd'},
      {origin: 'null'},
      {origin: 'https://evil.example'},
      {origin: 'http://localhost.evil.example'},
      {origin: 'file://'},
      {origin: 'http://localhost@evil.example'},
    ];
    const bodies = new Map();
    const check = async (row, headers, allowed, what) => {
      const answer = await send(weir, row.method, row.route, row.body, headers);
      const said = `${row.method} ${row.route} ${what} ${JSON.stringify(headers)}: ${answer.status} ${answer.text}`;
      assert.ok(allowed.includes(answer.status), said);
      assert.ok(!answer.text.includes(id) && !answer.text.includes('there'), said);
      const kind = `${what} ${answer.status}`;
      bodies.set(kind, (bodies.get(kind) ?? new Set()).add(answer.text));
      if (answer.status === 401) assert.equal(answer.headers['www-authenticate'], 'Bearer');
      assert.equal(answer.headers['access-control-allow-origin'], undefined);
    };
    for (const row of await routesOf(weir, id)) {
      const open = OPEN.has(row.pattern);
      if (!open) {
        await check(row, {}, [401], 'no key');
        for (const headers of wrong) await check(row, headers, [401], 'wrong key');
      }
      for (const host of hosts) await check(row, {...key, host}, [421], 'host');
      for (const page of pages) await check(row, {...key, ...page}, [403], 'page');
    }
    // J1, J3: one sentence for all, without the product, the key or where it lives.
    for (const [kind, texts] of bodies) {
      assert.equal(texts.size, 1, `${kind}: ${[...texts]}`);
      assert.doesNotMatch([...texts][0], /weir|sha|hmac|digest|ledger|\.key|Bearer/i, kind);
    }
    assert.deepEqual((await admin.all()).filter((k) => k.name !== 'client'), before);
  });

  test('what is meant for this host passes', async (t) => {
    const {weir} = await adminOf(t, {admin: {hosts: ['admin.internal', 'box:9999']}});
    for (const host of ['localhost', 'LOCALHOST:1', '127.0.0.1', '127.8.9.1:9090', '[::1]', '[::1]:9090',
      'admin.internal', 'Admin.Internal:80', 'box:9999']) {
      assert.equal((await send(weir, 'GET', '/admin/v1/keys', undefined, {...key, host})).status, 200, host);
    }
    for (const host of ['box', 'box:1', 'internal']) {
      assert.equal((await send(weir, 'GET', '/admin/v1/keys', undefined, {...key, host})).status, 421, host);
    }
    const pages = [
      {'sec-fetch-site': 'same-origin', origin: weir.admin},
      {'sec-fetch-site': 'none'},
      {origin: 'https://admin.internal'},
      {'x-admin-key': ADMIN_KEY, authorization: undefined},
    ];
    for (const page of pages) {
      const headers = JSON.parse(JSON.stringify({...key, ...page}));
      assert.equal((await send(weir, 'PUT', '/admin/v1/tenants/t', {weight: 2}, headers)).status, 200);
    }
    const foreign = {...key, 'content-type': 'text/plain'};
    assert.equal((await send(weir, 'POST', '/admin/v1/keys', '{"name":"a"}', foreign)).status, 415);
  });

  test('paths and methods that are none', async (t) => {
    const {weir} = await adminOf(t);
    const rows = [
      ['GET', '/admin/v1/keys/', 404],
      ['GET', '/admin/v1/keys/a/b', 404],
      ['GET', '/admin/v1/keys/a/rotate', 405],
      ['POST', '/admin/v1/keys/a', 405],
      ['PUT', '/admin/v1/keys', 405],
      ['DELETE', '/admin/v1/ledger', 405],
      ['POST', '/metrics', 405],
      ['GET', '/admin/v1', 404],
      ['GET', '/admin/v1/KEYS', 404],
      ['GET', '/admin/v1/%6beys', 404],
      ['GET', '//admin/v1/keys', 404],
      ['GET', '/v1/models', 404],
      ['POST', '/v1/chat/completions', 404],
    ];
    for (const [method, route, status] of rows) {
      assert.equal((await send(weir, method, route, undefined, key)).status, status, `${method} ${route}`);
    }
    const api = await fetch(`${weir.url}/admin/v1/keys`, {headers: key});
    assert.equal(api.status, 404);
  });

  test('without an admin key: explain is open, keys are closed and say how to open them', async (t) => {
    const {weir} = await adminOf(t, {key: null});
    for (const row of await routesOf(weir, 'key_0')) {
      const answer = await send(weir, row.method, row.route, row.body, key);
      if (OPEN.has(row.pattern) || row.pattern.endsWith('/explain')) {
        assert.equal(answer.status, 200, `${row.route} ${answer.text}`);
        continue;
      }
      assert.equal(answer.status, 403, `${row.route} ${answer.text}`);
      assert.match(answer.json.error.message, /admin\.key_file/);
    }
  });

  test('the admin key is a private file of one good line, and follows a reload', async (t) => {
    const other = 'weir-admin-another-0123456789abcdef0123456789';
    for (const [text, mode, said] of [
      ['short', 0o600, /32 to 512/],
      [`${ADMIN_KEY}\nmore`, 0o600, /one line/],
      [`${ADMIN_KEY} `, 0o600, /printable/],
      [ADMIN_KEY, 0o644, /chmod 600/],
    ]) {
      const change = withAdmin(t);
      writeFileSync(change.file, text);
      chmodSync(change.file, mode);
      const targets = [target({base: 'http://127.0.0.1:1/v1'})];
      await assert.rejects(startRelay(targets, change), (error) => {
        assert.match(error.message, said);
        return !error.message.includes(text);
      });
    }
    const {weir, admin, change} = await adminOf(t);
    await admin.all();
    writeFileSync(change.file, other);
    weir.child.kill('SIGHUP');
    await eventually('the reload', () => weir.log.includes('reloaded'));
    await admin.refused('GET', 'keys', undefined, 401, 'invalid_api_key');
    await new Admin(weir, other).all();
    writeFileSync(change.file, 'short');
    weir.child.kill('SIGHUP');
    await eventually('the refusal', () => weir.log.includes('reload refused'));
    await new Admin(weir, other).all();
  });
});
