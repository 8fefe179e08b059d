// The life of the process: reload, drain, crash, disconnects, limits, keys, the command line.
import assert from 'node:assert/strict';
import {execFile, execFileSync} from 'node:child_process';
import {mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import path from 'node:path';
import {describe, test} from 'node:test';

import {MODEL, Weir, authFor, defaults, readEvents, user} from './support/weir.js';

const LONG = {max_tokens: 6000, messages: [user('Tell me a story about a fox.')], stream: true};
// Never ends by itself: the end-of-turn token cannot be drawn.
const ENDLESS = {...LONG, logit_bias: {2049: -100, 2050: -100, 2057: -100}};

// Runs a command to its end, whatever its exit code.
function command(...args) {
  return new Promise((resolve) =>
    execFile(process.env.WEIR_BIN, args, (error, out, err) => resolve({code: error?.code ?? 0, out, err})),
  );
}

async function until(what, condition) {
  const deadline = Date.now() + 20_000;
  while (!(await condition())) {
    if (Date.now() > deadline) assert.fail(`not reached: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

// What came of a stream, and whether it ended without its end.
async function textUntilCut(answer) {
  const decoder = new TextDecoder();
  let text = '';
  try {
    for await (const part of answer.body) text += decoder.decode(part, {stream: true});
    return {text, cut: false};
  } catch {
    return {text, cut: true};
  }
}

const running = async (weir) => (await weir.metric(/^weir_engine_sequences\{.*state="running"/))[0];
const chatStatus = async (weir, headers, model = MODEL) =>
  (await weir.post('/v1/chat/completions', {model, messages: [user('ping')]}, headers)).status;

describe('reload', {timeout: 120_000}, () => {
  test('a good file is applied whole: aliases and keys change, running requests go on', async () => {
    const weir = await Weir.start((config, dir) => ({...config, auth: authFor('first', dir)}));
    const bearer = (key) => ({authorization: `Bearer ${key}`});
    assert.equal(await chatStatus(weir, bearer('first')), 200);
    assert.equal(await chatStatus(weir, bearer('second')), 401);
    const stream = await weir.post('/v1/chat/completions', {model: MODEL, ...ENDLESS, max_tokens: 400}, bearer('first'));
    weir.configure({
      ...weir.config,
      auth: authFor('second', weir.dir),
      models: [{name: MODEL, aliases: ['tiny'], targets: ['embedded']}],
    });
    weir.child.kill('SIGHUP');
    await until('the new key', async () => (await chatStatus(weir, bearer('second'))) === 200);
    assert.equal(await chatStatus(weir, bearer('first')), 401);
    assert.equal(await chatStatus(weir, bearer('second'), 'tiny'), 200);
    assert.equal((await readEvents(stream)).at(-1).choices[0].finish_reason, 'length');
    await weir.stop();
  });

  for (const [name, change, said] of [
    ['a fault', (config) => ({...config, models: [{name: 'x', targets: ['nobody']}]}), /no target named 'nobody'/],
    ['an unknown key', (config) => ({...config, lisen: '127.0.0.1:1'}), /did you mean 'listen'/],
    ['a listener that moved', (config) => ({...config, listen: '127.0.0.2:0'}), /a change of listen needs a restart/],
    [
      'a model that is not there',
      (config) => ({...config, targets: [{name: 'embedded', engine: {model_dir: tmpdir()}}]}),
      /reload refused/,
    ],
  ]) {
    test(`L6: ${name} is refused whole and the old configuration goes on`, async () => {
      const weir = await Weir.start();
      weir.configure(change({...weir.config, models: [{name: 'new', targets: ['embedded']}]}));
      weir.child.kill('SIGHUP');
      await until('the refusal', () => said.test(weir.log));
      assert.match(weir.log, /reload refused/);
      assert.equal(await chatStatus(weir, {}), 200);
      assert.equal(await chatStatus(weir, {}, 'new'), 404);
      assert.deepEqual(await weir.metric(/weir_config_reloads_total.*refused/), [1]);
      await weir.stop();
    });
  }
});

describe('end', {timeout: 120_000}, () => {
  test('L1: SIGTERM: not ready at once, the running stream finishes, exit code 0', async () => {
    const weir = await Weir.start();
    const stream = await weir.post('/v1/chat/completions', {model: MODEL, ...ENDLESS, max_tokens: 1500});
    const events = readEvents(stream);
    weir.child.kill('SIGTERM');
    await until('not ready', async () => (await fetch(`${weir.admin}/readyz`)).status === 503);
    assert.equal((await events).at(-1).choices[0].finish_reason, 'length');
    assert.deepEqual(await weir.ended, {code: 0, signal: null});
    rmSync(weir.dir, {recursive: true});
  });

  test('L2: past the grace a stream is cut, with an error event, and the exit code says so', async () => {
    const weir = await Weir.start((config) => ({...config, log: {access: true}, limits: {drain_grace_ms: 50}}));
    const stream = await weir.post('/v1/chat/completions', {model: MODEL, ...ENDLESS});
    const seen = textUntilCut(stream);
    weir.child.kill('SIGTERM');
    assert.deepEqual(await weir.ended, {code: 3, signal: null});
    const {text, cut} = await seen;
    assert.ok(cut);
    const last = text.trimEnd().split('\n\n').at(-1);
    const {error} = JSON.parse(last.slice('data: '.length));
    assert.equal(error.code, 'draining');
    assert.doesNotMatch(text, /\[DONE\]/);
    assert.match(weir.log, /"error":"draining"/);
    rmSync(weir.dir, {recursive: true});
  });

  test('past the grace a request without an answer gets a 503 that says when to come back', async () => {
    const weir = await Weir.start((config) => ({...config, limits: {drain_grace_ms: 50}}));
    const answer = weir.post('/v1/chat/completions', {model: MODEL, ...ENDLESS, stream: false});
    await until('it runs', async () => (await running(weir)) === 1);
    weir.child.kill('SIGTERM');
    const reply = await answer;
    assert.equal(reply.status, 503);
    assert.equal((await reply.json()).error.code, 'draining');
    assert.ok(Number(reply.headers.get('retry-after')) >= 1);
    assert.deepEqual(await weir.ended, {code: 3, signal: null});
    rmSync(weir.dir, {recursive: true});
  });

  test('a second signal ends at once', async () => {
    const weir = await Weir.start();
    const stream = await weir.post('/v1/chat/completions', {model: MODEL, ...ENDLESS});
    stream.text().catch(() => {});
    weir.child.kill('SIGTERM');
    await until('draining', () => /draining/.test(weir.log));
    weir.child.kill('SIGTERM');
    assert.deepEqual(await weir.ended, {code: 3, signal: null});
    rmSync(weir.dir, {recursive: true});
  });

  test('kill -9 and start again on the same port', async () => {
    const first = await Weir.start();
    first.child.kill('SIGKILL');
    await first.ended;
    const second = await Weir.start((config) => ({...config, listen: new URL(first.url).host}));
    assert.equal(second.url, first.url);
    assert.equal(await chatStatus(second, {}), 200);
    await second.stop();
  });
});

describe('start', {timeout: 120_000}, () => {
  test('a port in use is an error, not a share of it', async () => {
    const first = await Weir.start();
    const config = {...first.config, listen: new URL(first.url).host};
    await assert.rejects(
      Weir.start(() => config),
      /cannot listen on 127\.0\.0\.1:\d+: Address already in use/,
    );
    await first.stop();
  });
});

describe('disconnects and limits', {timeout: 120_000}, () => {
  for (const [name, fields] of [
    ['in the middle of a stream', {...ENDLESS}],
    ['while an answer that is not streamed is made', {...ENDLESS, stream: false}],
  ]) {
    test(`a client that leaves ${name} frees the engine`, async () => {
      const weir = await Weir.start((config) => ({...config, log: {access: true}}));
      const abort = new AbortController();
      const request = fetch(`${weir.base}/chat/completions`, {
        method: 'POST',
        headers: {'content-type': 'application/json'},
        body: JSON.stringify({model: MODEL, ...fields}),
        signal: abort.signal,
      })
        .then((response) => response.text())
        .catch(() => 'aborted');
      await until('running', async () => (await running(weir)) === 1);
      abort.abort();
      assert.equal(await request, 'aborted');
      await until('free', async () => (await running(weir)) === 0);
      await until('the log line', () => /"status":499/.test(weir.log));
      assert.deepEqual(await weir.metric(/^weir_requests_in_flight/), [0]);
      await weir.stop();
    });
  }

  test('a body over its limit is 413, bodies over the budget are 503', async () => {
    const weir = await Weir.start((config) => ({...config, limits: {body_bytes: '64KiB', body_budget_bytes: '32KiB'}}));
    const post = (bytes) => weir.post('/v1/completions', {model: MODEL, prompt: 'a'.repeat(bytes)});
    assert.equal((await post(70_000)).status, 413);
    const refused = await post(50_000);
    assert.equal(refused.status, 503);
    assert.equal((await refused.json()).error.code, 'overloaded');
    assert.equal((await post(1000)).status, 200);
    await weir.stop();
  });
});

describe('command line', {timeout: 120_000}, () => {
  const dir = mkdtempSync(path.join(tmpdir(), 'weir-serve-'));
  const file = (name, content) => {
    writeFileSync(path.join(dir, name), content);
    return path.join(dir, name);
  };

  test('L7: --check reports every fault, an unknown key too, with file, line and key', async () => {
    const bad = file('bad.yaml', 'listen: nowhere\ntargets:\n  - name: a\n    engine: {threads: -1}\nmodls: []\n');
    const {code, err} = await command('serve', '--config', bad, '--check');
    assert.equal(code, 2);
    for (const said of [/bad\.yaml:1:\d+: listen: /, /bad\.yaml:4:\d+: targets\[0\]\.engine\.threads: /, /:5:\d+: modls: .*models/, /needs at least one model/])
      assert.match(err, said);
    const good = file('good.yaml', JSON.stringify(defaults()));
    assert.equal((await command('serve', '--config', good, '--check')).code, 0);
    assert.equal((await command('serve', '--config', path.join(dir, 'none.yaml'), '--check')).code, 2);
  });

  test('a model folder without a model is a clear error', async () => {
    const config = {...defaults(), targets: [{name: 'embedded', engine: {model_dir: dir}}]};
    const {code, err} = await command('serve', '--config', file('empty.yaml', JSON.stringify(config)));
    assert.equal(code, 1);
    assert.match(err, /target 'embedded'/);
  });

  test('a new key authenticates, and neither it nor a prompt is ever written', async () => {
    const secret = path.join(dir, 'secret');
    const {code, out} = await command('keys', 'new', '--secret-file', secret, '--name', 'ci', '--tenant', 'team');
    assert.equal(code, 0);
    const key = out.split('\n')[0];
    const digest = /digest: (\S+)/.exec(out)[1];
    const weir = await Weir.start((config) => ({
      ...config,
      log: {level: 'debug', access: true},
      auth: {secret_file: secret, keys: [{name: 'ci', tenant: 'team', digest}]},
    }));
    const headers = {authorization: `Bearer ${key}`};
    const messages = [user('canary-prompt-7391')];
    for (const model of [MODEL, 'absent'])
      await (await weir.post('/v1/chat/completions', {model, messages, max_tokens: 4}, headers)).text();
    await (await weir.post('/v1/chat/completions', {messages: 'canary-prompt-7391'}, headers)).text();
    const metrics = await (await fetch(`${weir.admin}/metrics`)).text();
    assert.match(metrics, /status="200"/);
    await until('three log lines', () => weir.log.split('"request_id"').length >= 4);
    for (const text of [weir.out, weir.log, metrics]) {
      assert.ok(!text.includes(key) && !text.includes(key.slice(5, 25)));
      assert.ok(!text.includes('canary-prompt'));
    }
    assert.match(weir.log, /"key":"ci"/);
    await weir.stop();
  });

  test('TLS answers from 1.2 on', async () => {
    const cert = path.join(dir, 'cert.pem');
    const key = path.join(dir, 'key.pem');
    const made = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=localhost'];
    execFileSync('openssl', [...made, '-keyout', key, '-out', cert], {stdio: 'ignore'});
    const weir = await Weir.start((config) => ({...config, tls: {cert_file: cert, key_file: key}}));
    const {request} = await import('node:https');
    const get = (options) =>
      new Promise((resolve) => {
        request(`${weir.url}/healthz`, {rejectUnauthorized: false, ...options}, (response) => {
          response.resume();
          resolve(response.statusCode);
        })
          .on('error', () => resolve('refused'))
          .end();
      });
    assert.equal(await get({}), 200);
    assert.equal(await get({minVersion: 'TLSv1.2', maxVersion: 'TLSv1.2'}), 200);
    assert.equal(await get({minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0'}), 'refused');
    await weir.stop();
  });

  test('chat, eval, help and version', async () => {
    const {model_dir} = defaults().targets[0].engine;
    const chat = await command('chat', '--model', model_dir, 'What is the capital of Kenya?');
    assert.equal(chat.out, 'The capital of Kenya is Nairobi.\n');
    const args = ['model', 'eval', '--model', model_dir, '--cases', path.join(model_dir, 'golden.json'), '--json'];
    assert.equal(JSON.parse((await command(...args, '--tolerance', '1e-4')).out).passed, true);
    const strict = await command(...args, '--tolerance', '1e-12');
    assert.equal(strict.code, 1);
    assert.equal(JSON.parse(strict.out).passed, false);
    const golden = path.join(dir, 'golden.json');
    writeFileSync(golden, JSON.stringify({cases: [{prompt: [1, 2, 3], greedy: []}]}));
    const nothing = await command('model', 'eval', '--model', model_dir, '--cases', golden);
    assert.equal(nothing.code, 2);
    assert.match(nothing.err, /nothing to compare/);
    writeFileSync(golden, JSON.stringify({cases: [{prompt: [1, 2, 3], argmax: [0, 0, 0]}]}));
    const other = await command('model', 'eval', '--model', model_dir, '--cases', golden);
    assert.equal(other.code, 1);
    assert.match(other.out, /logits not compared/);
    assert.match(other.out, /argmax \d, the first in case 0/);
    for (const words of [['--help'], ['--version'], ['serve', '--help'], ['chat', '--help'], ['model', 'eval', '--help']]) {
      const {code, out} = await command(...words);
      assert.equal(code, 0, words.join(' '));
      assert.match(out, /weir|Weir|--/);
    }
    for (const words of [[], ['nonsense'], ['serve'], ['chat', '--temperature', '9'], [...args, '--tolerance', 'nan'], ['model', 'bench', '--seconds', 'nan']])
      assert.equal((await command(...words)).code, 2, words.join(' '));
    rmSync(dir, {recursive: true});
  });
});
