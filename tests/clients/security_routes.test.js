// Who may enter is decided on the very path that is served: no spelling of a path, no Host and no method
// opens what the plain request does not, on either listener; and there are no paths but those of the list.
import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import {describe, test} from 'node:test';

import {ADMIN_KEY, adminOf} from './support/admin.js';
import {HOSTS, pathSpellings} from './support/paths.js';
import {Raw} from './support/raw.js';
import {NAME, inParallel} from './support/relay.js';
import {user} from './support/weir.js';

const KEY = 'sk-of-a-client';
const API = {
  '/v1/chat/completions': ['POST', {model: NAME, messages: [user('ping')]}],
  '/v1/completions': ['POST', {model: NAME, prompt: 'ping'}],
  '/v1/embeddings': ['POST', {model: NAME, input: 'ping'}],
  '/v1/responses': ['POST', {model: NAME, input: 'ping'}],
  '/v1/messages': ['POST', {model: NAME, max_tokens: 9, messages: [user('ping')]}],
  '/v1/messages/count_tokens': ['POST', {model: NAME, messages: [user('ping')]}],
  '/v1/tokenize': ['POST', {model: NAME, prompt: 'ping'}],
  '/tokenize': ['POST', {model: NAME, prompt: 'ping'}],
  '/v1/models': ['GET'],
  [`/v1/models/${NAME}`]: ['GET'],
};
const ADMIN = {
  '/admin/v1/keys': ['GET'],
  '/admin/v1/keys/key_0': ['DELETE'],
  '/admin/v1/keys/key_0/rotate': ['POST', {}],
  '/admin/v1/keys/key_0/revoke': ['POST', {}],
  '/admin/v1/tenants': ['GET'],
  '/admin/v1/tenants/t': ['PUT', {weight: 2}],
  '/admin/v1/ledger': ['GET'],
  '/admin/v1/explain': ['POST', {request: {model: NAME, messages: [user('ping')]}}],
};
const NAMED = /^\/admin\/v1\/(keys|tenants)\/[^/]+(\/rotate|\/revoke)?$/; // whatever the name is
const OPEN = {
  api: ['/healthz', '/readyz'],
  admin: ['/healthz', '/readyz', '/metrics', '/admin/v1/openapi.json'],
};

// The status and text of one request of these very bytes; without an answer, a status of 0.
async function sent(url, method, path, {body, fields = {}, host = 'localhost'} = {}) {
  const raw = await Raw.connect(url);
  const bytes = Buffer.from(body === undefined ? '' : JSON.stringify(body));
  const all = {
    ...(host === null ? {} : {host}),
    ...(body === undefined ? {} : {'content-type': 'application/json', 'content-length': bytes.length}),
    connection: 'close',
    ...fields,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  raw.send(Buffer.concat([Buffer.from(`${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n`), bytes]));
  const text = String(await raw.toEnd());
  raw.drop();
  return {status: Number(text.split(' ')[1] ?? 0), text};
}

const served = ({status}) => status >= 200 && status < 300;
const bearer = (key) => ({authorization: `Bearer ${key}`});
const adminKey = bearer(ADMIN_KEY);

const start = (t) => adminOf(t, {keys: {[KEY]: 't'}});
const pathOf = (target) => target.split('?')[0];
const authorityOf = (url) => new URL(url).host;

// Holds `check` to every spelling of every path of a listener.
const everySpelling = (url, paths, open, check) => {
  const rows = Object.entries(paths).flatMap(([path, [method, body]]) =>
    pathSpellings(path, open, authorityOf(url), {model: NAME, key: KEY}).map((target) => ({
      path,
      method,
      body,
      target,
    })),
  );
  return inParallel(rows, 16, check).then(() => rows.length);
};

describe('paths and keys', {timeout: 600_000}, () => {
  test('the API: no spelling is served without a key, and what asks for none is nothing', async (t) => {
    const {weir, upstream} = await start(t);
    const rows = await everySpelling(weir.url, API, OPEN.api, async ({path, method, body, target}) => {
      const of = (fields) => sent(weir.url, method, target, {body, fields});
      const [none, wrong, right] = await Promise.all([of({}), of(bearer('wrong')), of(bearer(KEY))]);
      const said = `${method} ${JSON.stringify(target)}: ${none.status} ${wrong.status} ${right.status}`;
      if (OPEN.api.includes(pathOf(target))) {
        assert.ok([200, 400, 405].includes(none.status), said);
        return;
      }
      assert.ok(none.status >= 400 && wrong.status >= 400, said);
      assert.equal(wrong.status, none.status, said);
      // What a key is asked for is what it opens; all else is nothing to anyone.
      if (none.status === 401) assert.ok(![401, 403].includes(right.status), said);
      else assert.equal(right.status, none.status, said);
      if (served(right)) assert.equal(pathOf(target), path, said);
    });
    assert.ok(rows > 800, `${rows}`);
    assert.ok(upstream.requests.every((request) => Object.keys(API).includes(request.path)));
  });

  test('the admin listener: neither without a key nor with a wrong or a client’s one', async (t) => {
    const {weir, upstream} = await start(t);
    await everySpelling(weir.admin, ADMIN, OPEN.admin, async ({path, method, body, target}) => {
      const of = (fields) => sent(weir.admin, method, target, {body, fields});
      const shut = await Promise.all([
        of({}),
        of(bearer('wrong')),
        of(bearer(KEY)),
        of({'x-admin-key': KEY}),
      ]);
      const said = `${method} ${JSON.stringify(target)}: ${shut.map(({status}) => status)}`;
      if (OPEN.admin.includes(pathOf(target))) {
        assert.ok(
          shut.every(({status}) => [200, 400, 405].includes(status)),
          said,
        );
        return;
      }
      assert.ok(
        shut.every(({status}) => status >= 400 && status === shut[0].status),
        said,
      );
      if (shut[0].status !== 401) {
        const right = await of(adminKey);
        assert.equal(right.status, shut[0].status, said);
      } else {
        assert.ok(pathOf(target) === path || NAMED.test(pathOf(target)), said);
      }
    });
    assert.equal(upstream.requests.length, 0);
  });

  test('no path of one listener is on the other, whatever key comes', async (t) => {
    const {weir, upstream} = await start(t);
    for (const [url, paths] of [
      [weir.url, ADMIN],
      [weir.admin, API],
    ]) {
      for (const [path, [method, body]] of Object.entries(paths)) {
        for (const fields of [{}, bearer(KEY), adminKey, {...bearer(KEY), 'x-admin-key': ADMIN_KEY}]) {
          assert.equal((await sent(url, method, path, {body, fields})).status, 404, path);
        }
      }
    }
    assert.equal((await sent(weir.url, 'GET', '/metrics', {fields: bearer(KEY)})).status, 404);
    assert.equal(upstream.requests.length, 0);
  });

  test('a Host says nothing about who may enter', async (t) => {
    const {weir, upstream} = await start(t);
    for (const [url, paths] of [
      [weir.url, API],
      [weir.admin, ADMIN],
    ]) {
      const rows = Object.entries(paths).flatMap(([path, [method, body]]) =>
        [...HOSTS(authorityOf(url)), null].map((host) => ({path, method, body, host})),
      );
      await inParallel(rows, 16, async ({path, method, body, host}) => {
        for (const fields of [
          {},
          bearer('wrong'),
          {'x-forwarded-host': 'localhost', 'x-original-url': '/healthz'},
        ]) {
          const {status} = await sent(url, method, path, {body, fields, host});
          assert.ok([400, 401, 421].includes(status), `${path} ${host}: ${status}`);
        }
      });
    }
    assert.equal(upstream.requests.length, 0);
  });

  test('no method opens what another one does not', async (t) => {
    const {weir, upstream} = await start(t);
    const methods = [
      'GET',
      'HEAD',
      'POST',
      'PUT',
      'PATCH',
      'DELETE',
      'OPTIONS',
      'TRACE',
      'CONNECT',
      'PROPFIND',
      'get',
      'Post',
      'POSTX',
      'QUERY',
    ];
    const override = {'x-http-method-override': 'POST', 'x-http-method': 'POST', 'x-method-override': 'POST'};
    for (const [url, paths] of [
      [weir.url, API],
      [weir.admin, ADMIN],
    ]) {
      for (const [path, [, body]] of Object.entries(paths)) {
        await inParallel(methods, 8, async (method) => {
          for (const fields of [{}, override]) {
            const {status} = await sent(url, method, path, {
              body: /^GET|HEAD$/.test(method) ? undefined : body,
              fields,
            });
            assert.ok([400, 401, 405, 501].includes(status), `${method} ${path}: ${status}`);
          }
        });
      }
    }
    assert.equal(upstream.requests.length, 0);
  });
});

// What vLLM, SGLang, LiteLLM, Ollama, llama.cpp and others serve, some of it without a key.
const OTHERS = readFileSync(new URL('data/foreign_paths.txt', import.meta.url), 'utf8')
  .trim()
  .split('\n');

describe('paths that others serve', {timeout: 600_000}, () => {
  test('are none here, with a good key and without, and nothing is forwarded', async (t) => {
    const {weir, upstream} = await start(t);
    assert.ok(OTHERS.length > 150, `${OTHERS.length}`);
    await inParallel(OTHERS, 16, async (path) => {
      for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'HEAD']) {
        const body = /GET|HEAD|DELETE/.test(method) ? undefined : {model: NAME, input: 'x'};
        for (const fields of [{}, bearer(KEY), adminKey]) {
          const {status} = await sent(weir.url, method, path, {body, fields});
          assert.equal(status, 404, `${method} ${path}`);
        }
        if (['/admin/v1/keys', '/metrics'].includes(path)) continue;
        const {status} = await sent(weir.admin, method, path, {body, fields: adminKey});
        assert.equal(status, 404, `admin ${method} ${path}`);
      }
    });
    assert.equal(upstream.requests.length, 0);
  });

  test('no file is served, however its path is written', async (t) => {
    const {weir} = await start(t);
    const ups = [
      '../',
      '..%2f',
      '%2e%2e/',
      '%2e%2e%2f',
      '..\\',
      '..%5c',
      '%252e%252e%252f',
      '..;/',
      '....//',
      '.%00./',
      '%c0%ae%c0%ae/',
      '%uff0e%uff0e/',
      '..%c0%af',
      '\u2025/',
      '..//',
      './../',
      '%2e./',
      '.%2e/',
    ];
    const files = ['etc/passwd', 'proc/self/environ', 'weir.yaml', 'secret', 'admin.key'];
    const bases = ['/', '/v1/', '/v1/models/', '/admin/v1/keys/', '/admin/v1/tenants/'];
    const rows = ups.flatMap((up) =>
      files.flatMap((file) => bases.map((base) => `${base}${up.repeat(8)}${file}`)),
    );
    await inParallel(rows, 16, async (path) => {
      for (const [url, fields] of [
        [weir.url, bearer(KEY)],
        [weir.admin, adminKey],
      ]) {
        const {status, text} = await sent(url, 'GET', path, {fields});
        assert.ok([400, 404].includes(status), `${path}: ${status} ${text.slice(-200)}`);
        assert.ok(!/root:|WEIR_|secret_file|thirty-two/.test(text.split('\r\n\r\n')[1]), text);
      }
    });
  });
});
