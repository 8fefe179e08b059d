// weir-loadtest chaos: what comes out of each end, byte for byte.
import assert from 'node:assert/strict';
import {execFile} from 'node:child_process';
import {once} from 'node:events';
import net from 'node:net';
import {after, before, describe, test} from 'node:test';

import {Tool} from './support/loadtest.js';
import {Raw, eventually} from './support/raw.js';

const ANSWER = 'The answer of the server, all of it.';
const QUESTION = 'question\n';

// Answers each line with ANSWER, and keeps what it was sent; a line "end" ends the connection behind the answer.
class Origin {
  static async start() {
    const origin = new Origin();
    origin.connections = [];
    origin.server = net.createServer({noDelay: true, allowHalfOpen: true}, (socket) => {
      const seen = {text: '', end: null, socket};
      origin.connections.push(seen);
      socket.on('data', (bytes) => {
        seen.text += bytes;
        if (String(bytes).includes('\n')) socket.write(ANSWER);
        if (seen.text.endsWith('end\n')) socket.end();
      });
      socket.on('end', () => {
        seen.end = 'FIN';
        socket.end();
      });
      socket.on('error', (error) => {
        seen.end = error.code;
      });
    });
    origin.server.listen(0, '127.0.0.1');
    await once(origin.server, 'listening');
    origin.authority = `127.0.0.1:${origin.server.address().port}`;
    return origin;
  }
  stop() {
    for (const {socket} of this.connections) socket.destroy();
    this.server.close();
  }
}

describe('chaos', {timeout: 60_000}, () => {
  let origin;
  before(async () => {
    origin = await Origin.start();
  });
  after(() => origin.stop());

  const withProxy = async (args, use) => {
    origin.connections.length = 0;
    const proxy = await Tool.start('chaos', '--to', origin.authority, '--verbose', ...args);
    try {
      await use(proxy);
    } finally {
      await proxy.stop();
    }
    return proxy.log;
  };
  const ask = async (proxy, question = QUESTION) => {
    const raw = await Raw.connect(proxy.url);
    return raw.send(question);
  };
  const whole = async (raw, text = ANSWER) => {
    assert.ok(await raw.untilText(text), `${raw.bytes}`);
    assert.equal(raw.bytes.toString(), text);
  };

  for (const [name, args] of [
    ['as they come', []],
    ['in pieces', ['--piece-bytes', '5', '--piece-gap-ms', '0.1']],
    ['late', ['--delay-ms', '1', '--jitter-ms', '2']],
    ['slowly', ['--rate-bytes-per-s', '5000']],
    ['through faults for no connection', ['--reset-at', '3', '--refuse', '--share', '0']],
  ]) {
    test(`all bytes pass, ${name}`, () =>
      withProxy(args, async (proxy) => {
        const raw = await ask(proxy, `first ${QUESTION}`);
        await whole(raw);
        raw.bytes = Buffer.alloc(0);
        raw.send('end\n');
        assert.equal(String(await raw.toEnd()), ANSWER);
        assert.equal(origin.connections[0].text, `first ${QUESTION}end\n`);
        await eventually('the FIN arrives', () => origin.connections[0].end === 'FIN');
      }));
  }

  test('a reset at every byte of the answer', () =>
    Promise.all(
      Array.from({length: ANSWER.length + 1}, async (_, k) => {
        const proxy = await Tool.start('chaos', '--to', origin.authority, '--reset-at', `${k}`);
        const raw = await ask(proxy);
        assert.equal(String(await raw.toEnd()), ANSWER.slice(0, k));
        await proxy.stop();
        assert.match(proxy.log, /1 connections, reset 1/);
      }),
    ));

  test('a reset of the request', async () => {
    const log = await withProxy(['--reset-request-at', '4'], async (proxy) => {
      const raw = await ask(proxy);
      assert.equal(String(await raw.toEnd()), '');
      await eventually('the server sees it', () => origin.connections[0].end !== null);
      assert.equal(origin.connections[0].text, QUESTION.slice(0, 4));
    });
    assert.match(log, /reset-request at byte 4/);
  });

  test('a half close: the answer ends, the question does not', () =>
    withProxy(['--half-close-at', '7'], async (proxy) => {
      const raw = await ask(proxy);
      await raw.until((bytes) => bytes.length === 7);
      await once(raw.socket, 'end');
      assert.equal(String(raw.bytes), ANSWER.slice(0, 7));
    }));

  test('a black hole: nothing passes any more, nothing is closed', () =>
    withProxy(['--black-hole-at', '7'], async (proxy) => {
      const raw = await ask(proxy);
      await raw.until((bytes) => bytes.length === 7);
      raw.send(QUESTION);
      const other = await ask(proxy);
      await other.until((bytes) => bytes.length === 7);
      assert.equal(String(raw.bytes), ANSWER.slice(0, 7));
      assert.equal(origin.connections[0].text, QUESTION);
      assert.ok(!raw.closed && origin.connections[0].end === null);
      raw.drop();
      other.drop();
    }));

  test('a garbled byte', () =>
    withProxy(['--garble-at', '4'], async (proxy) => {
      const raw = await ask(proxy);
      await raw.until((bytes) => bytes.length === ANSWER.length);
      const expected = Buffer.from(ANSWER);
      expected[4] ^= 0xff;
      assert.deepEqual(raw.bytes, expected);
      raw.drop();
    }));

  test('added bytes, in the middle and at the end', () =>
    withProxy(['--add-at', '10', '--add-at-end', 'extra'], async (proxy) => {
      const raw = await ask(proxy, 'end\n');
      const bytes = await raw.toEnd();
      assert.equal(String(bytes.subarray(0, 10)), ANSWER.slice(0, 10));
      assert.equal(String(bytes.subarray(18)), `${ANSWER.slice(10)}extra`);
    }));

  test('refused connections', async () => {
    const log = await withProxy(['--refuse'], async (proxy) => {
      const raw = await ask(proxy).catch(() => null); // it may be reset before it is known to be open
      if (raw) assert.equal((await raw.toEnd()).length, 0);
      await eventually('it says so', () => proxy.log.includes('refused'));
    });
    assert.equal(origin.connections.length, 0);
    assert.match(log, /1 connections, refuse 1/);
  });

  test('a server that is not there', async () => {
    const proxy = await Tool.start('chaos', '--to', '127.0.0.1:1');
    const raw = await ask(proxy).catch(() => null);
    if (raw) assert.equal((await raw.toEnd()).length, 0);
    await proxy.stop();
    assert.match(proxy.log, /server unreachable 1/);
  });

  test('frozen and resumed', () =>
    withProxy([], async (proxy) => {
      const raw = await ask(proxy);
      await whole(raw);
      proxy.child.kill('SIGUSR1');
      await eventually('it says so', () => proxy.log.includes('frozen'));
      raw.send(QUESTION);
      await new Promise((resolve) => setTimeout(resolve, 50));
      assert.equal(origin.connections[0].text, QUESTION);
      proxy.child.kill('SIGUSR2');
      await raw.until((bytes) => bytes.length === 2 * ANSWER.length);
      assert.equal(origin.connections[0].text, QUESTION + QUESTION);
      raw.drop();
    }));

  test('a drawn schedule is the same for the same seed', async () => {
    const draw = async (seed) => {
      const log = await withProxy(
        ['--schedule', 'random', '--k-max', '30', '--share', '0.8', '--seed', seed],
        async (proxy) => {
          for (let i = 0; i < 30; ++i) {
            const raw = await ask(proxy, 'end\n').catch(() => null);
            const settled = new RegExp(`#${i + 1} (refused|the server ended|\\S+ at byte)`);
            await eventually('its fate', () => settled.test(proxy.log));
            raw?.drop();
          }
        },
      );
      return log.match(/\d+ connections.*/)[0];
    };
    const first = await draw('7');
    assert.match(first, /^30 connections, .*\d, .*\d/);
    assert.equal(await draw('7'), first);
    assert.notEqual(await draw('8'), first);
  });

  test('bad arguments end with 2 and say so', async () => {
    for (const [args, said] of [
      [[], /--to/],
      [['--to', 'nowhere'], /HOST:PORT/],
      [['--to', '127.0.0.1:1', '--k-min', '2', '--k-max', '1'], /--k-min/],
    ]) {
      await new Promise((resolve) =>
        execFile(process.env.WEIR_LOADTEST_BIN, ['chaos', ...args], (error, _, err) => {
          assert.equal(error.code, 2);
          assert.match(err, said);
          resolve();
        }),
      );
    }
  });
});
