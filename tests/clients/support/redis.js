// A Redis server of the test's own, on a free port and without persistence, and the faults it can have; and
// servers that only look like one.
import {execFile, spawn} from 'node:child_process';
import {once} from 'node:events';
import {mkdtempSync, rmSync} from 'node:fs';
import net from 'node:net';
import {tmpdir} from 'node:os';
import path from 'node:path';
import {promisify} from 'node:util';

import {eventually} from './raw.js';

const START_MS = 20_000;

async function freePort() {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const {port} = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

export class Redis {
  static async start(...options) {
    const redis = new Redis();
    redis.dir = mkdtempSync(path.join(tmpdir(), 'weir-redis-'));
    redis.port = await freePort();
    redis.options = options;
    await redis.begin();
    return redis;
  }

  get url() {
    return `redis://127.0.0.1:${this.port}`;
  }

  // Empty, as after a restart without persistence.
  async begin() {
    const place = ['--port', `${this.port}`, '--bind', '127.0.0.1', '--dir', this.dir];
    this.child = spawn('redis-server', [...place, '--save', '', '--appendonly', 'no', ...this.options], {
      stdio: 'ignore',
    });
    this.ended = once(this.child, 'close');
    await eventually('redis-server', async () => /PONG|NOAUTH/.test(await this.cli('ping')), START_MS);
  }

  // What the server says, errors too.
  async cli(...args) {
    const run = promisify(execFile)('redis-cli', ['-p', `${this.port}`, ...args]);
    return (await run.catch((error) => ({stdout: `${error.stdout}${error.stderr}`}))).stdout.trim();
  }

  async kill() {
    this.child.kill('SIGKILL');
    await this.ended;
  }

  freeze() {
    this.child.kill('SIGSTOP');
  }

  thaw() {
    this.child.kill('SIGCONT');
  }

  async stop() {
    await this.kill();
    rmSync(this.dir, {recursive: true, force: true});
  }
}

export async function redisOf(t, ...options) {
  const redis = await Redis.start(...options);
  t.after(() => redis.stop());
  return redis;
}

// Answers everything with the same bytes; with none it only listens.
export async function pretenderOf(t, answer) {
  const sockets = new Set();
  const server = net.createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('data', () => answer && socket.write(answer));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return {url: `redis://127.0.0.1:${server.address().port}`};
}
