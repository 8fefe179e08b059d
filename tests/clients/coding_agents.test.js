// Coding agents as people run them, headless in a folder of their own: weir stands between them and a scripted
// model that has them write a file and then says that it is done.
import assert from 'node:assert/strict';
import {spawn} from 'node:child_process';
import {once} from 'node:events';
import {mkdirSync, readFileSync, writeFileSync} from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import {describe, test} from 'node:test';

import {hostedWith, jsonOf} from './support/hosted.js';
import {NAME} from './support/relay.js';
import {folderOf} from './support/routing.js';
import {plays} from './support/scripted_model.js';
import {jsonReply} from './support/upstream.js';

const KEY = 'sk-of-an-agent';
const DONE = 'The note is written – 完了.';
const LIMIT_MS = 120_000; // an agent that takes longer waits for something that does not come
const modules = path.join(import.meta.dirname, 'node_modules');
const json = (file, value) => writeFileSync(file, JSON.stringify(value));

// Each: what it is called with in `home` to ask weir at `base`, and the tool call that makes it write `file`.
const AGENTS = {
  pi: {
    apis: {chat: 'openai-completions', responses: 'openai-responses', messages: 'anthropic-messages'},
    routes: ['chat', 'responses', 'messages', 'messages, translated to chat'],
    call: (file, content) => ({call: 'write', args: {path: file, content}}),
    command({home, url, api, key}) {
      const baseUrl = api === 'anthropic-messages' ? url : `${url}/v1`;
      json(path.join(home, 'models.json'), {
        providers: {weir: {baseUrl, api, apiKey: key, models: [{id: NAME}]}},
      });
      return {
        args: [
          '@earendil-works/pi-coding-agent/dist/bundle/cli.js',
          '-p',
          '--no-session',
          '--model',
          `weir/${NAME}`,
        ],
        env: {PI_CODING_AGENT_DIR: home, PI_OFFLINE: '1', PI_TELEMETRY: '0'},
      };
    },
  },
  'qwen-code': {
    apis: {chat: 'openai', messages: 'anthropic'},
    routes: ['chat', 'messages, translated to chat'],
    call: (file, content) => ({call: 'write_file', args: {file_path: file, content}}),
    command({home, url, api, key}) {
      mkdirSync(path.join(home, '.qwen'));
      json(path.join(home, '.qwen/settings.json'), {
        privacy: {usageStatisticsEnabled: false},
        telemetry: {enabled: false},
        general: {enableAutoUpdate: false},
      });
      return {
        args: ['@qwen-code/qwen-code/cli.js', '--auth-type', api, '--yolo', '-m', NAME],
        env: {
          OPENAI_API_KEY: key,
          OPENAI_BASE_URL: `${url}/v1`,
          OPENAI_MODEL: NAME,
          ANTHROPIC_API_KEY: key,
          ANTHROPIC_BASE_URL: url,
          ANTHROPIC_MODEL: NAME,
        },
      };
    },
  },
};

// A proxy for everything but this machine, which nobody may ask for anything.
async function trapOf(t) {
  const trap = net.createServer((socket) => {
    trap.asked += 1;
    socket.destroy();
  });
  trap.asked = 0;
  trap.listen(0, '127.0.0.1');
  await once(trap, 'listening');
  t.after(() => trap.close());
  const proxy = `http://127.0.0.1:${trap.address().port}`;
  const env = {HTTP_PROXY: proxy, HTTPS_PROXY: proxy, http_proxy: proxy, https_proxy: proxy};
  return Object.assign(trap, {env: {...env, NO_PROXY: '127.0.0.1', no_proxy: '127.0.0.1'}});
}

// Runs an agent to its end in `dir`.
async function runAgent(t, agent, {weir, dir, api, key = KEY}) {
  const home = folderOf();
  const trap = await trapOf(t);
  const {args, env} = agent.command({home, url: weir.url, api, key});
  const own = {PATH: process.env.PATH, HOME: home, TERM: 'dumb', NO_COLOR: '1', ...trap.env};
  const child = spawn(process.execPath, [path.join(modules, args[0]), ...args.slice(1), 'Write the note.'], {
    cwd: dir,
    env: {...own, ...env},
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const run = {out: '', err: ''};
  child.stdout.on('data', (bytes) => (run.out += bytes));
  child.stderr.on('data', (bytes) => (run.err += bytes));
  const timer = setTimeout(() => child.kill('SIGKILL'), LIMIT_MS);
  const [code, signal] = await once(child, 'close');
  clearTimeout(timer);
  assert.equal(trap.asked, 0, 'it asked another host');
  return {...run, code: code ?? signal};
}

const accessLines = (weir) =>
  weir.log
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line));

// What an agent speaks, and what the target behind weir does: name, the target's fields, the path asked there.
const ROUTES = {
  chat: ['chat', {}, '/v1/chat/completions'],
  responses: ['responses', {endpoints: ['chat', 'responses']}, '/v1/responses'],
  messages: ['messages', {dialect: 'anthropic'}, '/v1/messages'],
  'messages, translated to chat': ['messages', {}, '/v1/chat/completions'],
};

for (const [name, agent] of Object.entries(AGENTS)) {
  describe(`coding agents: ${name}`, {timeout: 600_000}, () => {
    for (const route of agent.routes) {
      test(`by ${route}: it writes what the model says and ends well`, async (t) => {
        const [dialect, http, own] = ROUTES[route];
        const dir = folderOf();
        const note = path.join(dir, 'note.txt');
        const content = `"quoted" \\ and\ttabs – 東京 🦊\n${'line\n'.repeat(50)}`;
        const turns = [agent.call(note, content), {text: DONE}];
        const {weir, upstream} = await hostedWith(t, http, plays(turns), {keys: {[KEY]: 't'}});
        const run = await runAgent(t, agent, {weir, dir, api: agent.apis[dialect]});
        assert.equal(run.code, 0, run.err);
        assert.ok(run.out.includes(DONE), run.out);
        assert.equal(readFileSync(note, 'utf8'), content);
        const lines = accessLines(weir);
        assert.ok(lines.length >= 2);
        for (const line of lines) assert.deepEqual([line.status, line.key], [200, KEY], JSON.stringify(line));
        for (const request of upstream.requests) {
          assert.equal(request.path, own);
          assert.ok(request.body.length > 4_000, 'a whole prompt');
          assert.ok(jsonOf(request).tools.length >= 4);
          assert.ok(!request.head.includes(KEY) && !request.body.includes(KEY));
        }
      });
    }
  });
}

describe('coding agents: refusals', {timeout: 600_000}, () => {
  test('pi is told of a wrong key and ends with an error', async (t) => {
    const {weir, upstream} = await hostedWith(t, {}, plays([{text: DONE}]), {keys: {[KEY]: 't'}});
    const run = await runAgent(t, AGENTS.pi, {
      weir,
      dir: folderOf(),
      api: 'openai-completions',
      key: 'sk-wrong',
    });
    assert.notEqual(run.code, 0);
    assert.match(run.err, /401/);
    assert.equal(upstream.requests.length, 0);
  });

  test('pi asks again where a target stays overloaded', async (t) => {
    const full = jsonReply({error: {message: 'full'}}, {status: 503, fields: {'retry-after': '1'}});
    const model = plays([{text: DONE}]);
    const refuse = (request, socket, n) => (n < 2 ? socket.write(full) : model(request, socket));
    const {weir} = await hostedWith(t, {}, refuse, {keys: {[KEY]: 't'}});
    const run = await runAgent(t, AGENTS.pi, {weir, dir: folderOf(), api: 'openai-completions'});
    assert.equal(run.code, 0, run.err);
    assert.ok(run.out.includes(DONE), run.out);
    assert.deepEqual(
      accessLines(weir).map((line) => line.status),
      [503, 200],
    );
  });
});
