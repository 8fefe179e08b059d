// weir keys against servers that are silent, endless or none, and an output that takes nothing.
import assert from 'node:assert/strict';
import {spawn} from 'node:child_process';
import {once} from 'node:events';
import {openSync, writeFileSync} from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import {describe, test} from 'node:test';

import {ADMIN_KEY, adminOf, run} from './support/admin.js';
import {SLOW} from './support/relay.js';
import {folderOf} from './support/routing.js';

const DEADLINE_MS = SLOW ? 8_000 : 2_500; // of --timeout-s 1
const reply = (body, status = '200 OK') =>
  `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;

// Answers a connection by `serve`, which gets the socket once a request came.
async function serverOf(t, serve) {
  const sockets = new Set();
  const server = net.createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.once('data', () => serve(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `http://127.0.0.1:${server.address().port}`;
}

describe('weir keys: servers', {timeout: 60_000}, () => {
  const drip = (bytes) => (socket) => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n');
    const timer = setInterval(() => socket.write(bytes), 100);
    socket.on('close', () => clearInterval(timer));
  };
  const late = {
    silent: () => {},
    dribbling: drip('x'),
    'slow with its head': (socket) => {
      const timer = setInterval(() => socket.write('H'), 100);
      socket.on('close', () => clearInterval(timer));
    },
  };
  for (const [name, serve] of Object.entries(late)) {
    test(`a server that is ${name} ends within the deadline`, async (t) => {
      const url = await serverOf(t, serve);
      const begun = performance.now();
      const {code, err} = await run('keys', 'list', '--url', url, '--timeout-s', '1');
      assert.equal(code, 1);
      assert.ok(err.length > 0);
      assert.ok(performance.now() - begun < DEADLINE_MS, err);
    });
  }

  test('pages that do not end', async (t) => {
    const url = await serverOf(t, (socket) => socket.end(reply('{"data":[],"next":"a b\\r\\nX: 1"}')));
    const {code, err} = await run('keys', 'list', '--url', url, '--timeout-s', '5');
    assert.equal(code, 1);
    assert.match(err, /pages of keys do not end/);
  });

  test('what a server says reaches no terminal as it is', async (t) => {
    const odd = '\\u001b]0;owned\\u0007\\u009b31m';
    const key = `{"id":"${odd}","name":"${odd}","tenant":"t","limits":{},"models":["${odd}"],"key":"${odd}"}`;
    const rows = [
      [['list'], reply(`{"error":{"message":"${odd}"}}`, '500 X')],
      [['list'], reply('\x1b]0;owned\x07', '500 X')],
      [['list'], reply(`{"data":[${key}],"next":null}`)],
      [['list', '--json'], reply(`{"data":[${key}],"next":null}`)],
      [['show', 'x'], reply(key)],
      [['show', 'x', '--json'], reply(key)],
      [['create', '--name', 'x'], reply(key, '201 Created')],
      [['tenants'], reply(`{"data":[{"name":"${odd}","weight":1,"source":"${odd}","keys":1}]}`)],
    ];
    for (const [args, answer] of rows) {
      const url = await serverOf(t, (socket) => socket.end(answer));
      const {out, err} = await run('keys', ...args, '--url', url);
      assert.ok(out.length + err.length > 0, args.join(' '));
      assert.doesNotMatch(out + err, /[\x00-\x09\x0b-\x1f\x7f-\x9f]/, args.join(' '));
    }
  });

  test('--url names a server, not a path', async (t) => {
    const {weir, change} = await adminOf(t);
    const list = (url) => run('keys', 'list', '--admin-key-file', change.file, '--url', url);
    assert.equal((await list(`${weir.admin}/`)).code, 0);
    for (const tail of ['/x', '/v1', '/admin/v1', '//', '/x/']) {
      const {code, err} = await list(weir.admin + tail);
      assert.equal(code, 2, tail);
      assert.match(err, /--url/);
    }
  });
});

describe('weir keys: what goes out and in', {timeout: 60_000}, () => {
  test('a key that standard output does not take is revoked again', async (t) => {
    const {weir, admin, change} = await adminOf(t);
    const full = openSync('/dev/full', 'w');
    const at = ['--url', weir.admin, '--admin-key-file', change.file];
    const toFull = async (...args) => {
      const child = spawn(process.env.WEIR_BIN, ['keys', ...args], {stdio: ['ignore', full, 'pipe']});
      let err = '';
      child.stderr.on('data', (bytes) => (err += bytes));
      return {code: (await once(child, 'close'))[0], err: () => err};
    };
    const made = await toFull('create', '--name', 'lost', ...at);
    assert.equal(made.code, 1);
    assert.match(made.err(), /was revoked again/);
    const [key] = await admin.all();
    assert.equal(key.revoked, true);
    const {id} = await admin.create({name: 'kept'});
    const rotated = await toFull('rotate', id, ...at);
    assert.equal(rotated.code, 1);
    assert.match(rotated.err(), /rotate again/);
    const secret = path.join(folderOf(), 'secret');
    for (const args of [['list', ...at], ['new', '--secret-file', secret, '--name', 'x']]) {
      assert.equal((await toFull(...args)).code, 1, args[0]);
    }
  });

  test('lines for the configuration are YAML whatever the name is', async (t) => {
    const secret = path.join(folderOf(), 'secret');
    const make = (...args) => run('keys', 'new', '--secret-file', secret, ...args);
    for (const name of ['ci', 'null', '5', '{a: b}'.replaceAll(' ', ''), '#x', '-', "it's", '&a', '*', '!x', 'a:']) {
      const {out, code} = await make('--name', name, '--tenant', name);
      assert.equal(code, 0, name);
      assert.ok(out.includes(`- name: "${name}"\n      tenant: "${name}"\n`), out);
    }
    for (const name of ['a b', 'a\nb', '\x1b[31m', 'é', 'a"b', '']) {
      for (const args of [['--name', name], ['--name', 'x', '--tenant', name]]) {
        const {out, err, code} = await make(...args);
        assert.equal(code, 1, JSON.stringify(name));
        assert.equal(out, '');
        assert.match(err, /--(name|tenant): /);
      }
    }
  });

  test('numbers that say two things, and options that need one another', async (t) => {
    const {weir, change} = await adminOf(t);
    const at = ['--url', weir.admin, '--admin-key-file', change.file];
    for (const typed of ['007', '00', '0x10', '1,000', '5$']) {
      const {code, err} = await run('keys', 'create', ...at, '--name', 'x', `--usd-per-day=${typed}`);
      assert.equal(code, 1, typed);
      assert.match(err, /usd_per_day.* must be a number of dollars/, typed);
    }
    const {code, err} = await run('keys', 'tenants', ...at, '--weight', '3');
    assert.equal(code, 2);
    assert.match(err, /--weight needs --name/);
  });

  test('an admin key file with a Windows line end opens; one with a line inside is none', async (t) => {
    const {weir} = await adminOf(t);
    const file = path.join(folderOf(), 'key');
    const list = (text) => {
      writeFileSync(file, text, {mode: 0o600});
      return run('keys', 'list', '--url', weir.admin, '--admin-key-file', file);
    };
    assert.equal((await list(`${ADMIN_KEY}\r\n`)).code, 0);
    for (const text of [`${ADMIN_KEY}\r\nx-evil: 1`, `${ADMIN_KEY}\nx`, `a ${ADMIN_KEY}`, `${ADMIN_KEY}\x07`]) {
      const {code, err} = await list(text);
      assert.equal(code, 2, JSON.stringify(text));
      assert.match(err, /one line of printable characters/);
      assert.ok(!err.includes(ADMIN_KEY));
    }
  });
});
