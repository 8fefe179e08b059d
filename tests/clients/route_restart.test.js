// A gateway that begins anew knows where prompts are; a replica that does so is found out.
import assert from 'node:assert/strict';
import {existsSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync} from 'node:fs';
import path from 'node:path';
import {describe, test} from 'node:test';

import {Tool} from './support/loadtest.js';
import {eventually} from './support/raw.js';
import {
  DENSE_CACHE,
  HYBRID_CACHE,
  Sessions,
  ask,
  explain,
  flags,
  folderOf,
  holdings,
  ids,
  mocksOf,
  percent,
  replicas,
  routerOf,
  startMock,
  startRouter,
} from './support/routing.js';

const withState = (dir) => (config) => ({...config, routing: dir ? {state_dir: dir} : {}});

const evidence = async (weir, prompt) => (await explain(weir, prompt)).candidates.map((c) => c.evidence);
const restored = async (weir, prompts) => {
  const found = await Promise.all(prompts.map((prompt) => evidence(weir, prompt)));
  return found.filter((list) => list.includes('restored')).length;
};

async function kill(weir) {
  weir.child.kill('SIGKILL');
  await weir.ended;
  rmSync(weir.dir, {recursive: true});
}

describe('restart of the gateway', {timeout: 120_000}, () => {
  for (const keeps of [true, false]) {
    const what = keeps ? 'with a state folder it is warm' : 'without one it begins blind';
    test(what, async (t) => {
      const targets = replicas(await mocksOf(t, 4));
      const dir = keeps ? folderOf() : null;
      const sessions = new Sessions();
      const first = await startRouter(targets, withState(dir));
      await sessions.turn(first);
      const before = await sessions.turn(first);
      await first.stop();
      const begun = performance.now();
      const second = await routerOf(t, targets, withState(dir));
      const took = performance.now() - begun;
      assert.equal(await restored(second, sessions.prompts), keeps ? sessions.count : 0);
      const after = await sessions.turn(second);
      const later = await sessions.turn(second);
      const rates = [before, after, later].map(percent);
      t.diagnostic(`hit rates before, after, later: ${rates}; up in ${took.toFixed(0)} ms`);
      assert.ok(before > 0.8 && later > 0.8);
      if (keeps) assert.ok(after > before - 0.03, `${after} after ${before}`);
      else assert.ok(after < before / 2, `${after} after ${before}: then nothing is proved by the other`);
    });
  }

  test('what is restored is no more than a hint: a replica that forgot corrects it', async (t) => {
    const mocks = await mocksOf(t, 1);
    const dir = folderOf();
    const first = await startRouter(replicas(mocks), withState(dir));
    const prompt = ids(1, 1_000);
    await ask(first, prompt);
    await first.stop();
    await mocks[0].post('/reset_prefix_cache', {});
    const second = await routerOf(t, replicas(mocks), withState(dir));
    assert.deepEqual(await holdings(second, prompt), [[960, 960, 'restored']]);
    const wrong = await ask(second, prompt);
    assert.deepEqual([wrong.predicted, wrong.cached], [960, 0]);
    const right = await ask(second, prompt);
    assert.deepEqual([right.predicted, right.cached], [960, 960]);
  });

  test('killed, it begins anew and knows all but the last', async (t) => {
    const targets = replicas(await mocksOf(t, 4));
    const dir = folderOf();
    const sessions = new Sessions();
    let weir = await startRouter(targets, withState(dir));
    const again = async () => {
      await kill(weir);
      weir = await startRouter(targets, withState(dir));
      return restored(weir, sessions.prompts);
    };
    t.after(() => weir.stop());
    await sessions.turn(weir);
    const before = await sessions.turn(weir);
    const known = await again();
    const after = await sessions.turn(weir);
    t.diagnostic(`${known} of ${sessions.count} known; hit rates ${percent(before)}, then ${percent(after)}`);
    assert.ok(known >= sessions.count - 2, `${known} known`);
    assert.ok(after > before - 0.03, `${after} after ${before}`);
    assert.ok((await again()) >= sessions.count - 2);
  });
});

function filesUnder(dir) {
  return readdirSync(dir, {recursive: true})
    .map((name) => path.join(dir, name))
    .filter((file) => statSync(file).isFile());
}

describe('a state folder that is damaged', {timeout: 120_000}, () => {
  const flip = (match) => (index) => {
    const files = filesUnder(index).filter((file) => match.test(path.basename(file)));
    assert.ok(files.length > 0, `no ${match}`);
    for (const file of files) {
      const bytes = readFileSync(file);
      for (let at = 0; at < bytes.length; at += 97) bytes[at] ^= 0x5a;
      writeFileSync(file, bytes);
    }
  };
  const damages = {
    'bytes flipped in every file': flip(/./),
    'bytes flipped in the tables': flip(/\.(sst|log|blob)$/),
    'bytes flipped in the manifest': flip(/^MANIFEST/),
    'every file emptied': (index) => filesUnder(index).forEach((file) => writeFileSync(file, '')),
    'CURRENT lost': (index) => rmSync(filesUnder(index).find((file) => path.basename(file) === 'CURRENT')),
  };
  for (const [what, damage] of Object.entries(damages)) {
    test(`${what}: it starts all the same`, async (t) => {
      const mocks = await mocksOf(t, 1);
      const dir = folderOf();
      const first = await startRouter(replicas(mocks), withState(dir));
      for (let i = 0; i < 20; ++i) await ask(first, ids(i, 600));
      await first.stop();
      assert.ok(existsSync(path.join(dir, 'index')));
      damage(path.join(dir, 'index'));
      const second = await startRouter(replicas(mocks), withState(dir));
      for (let i = 0; i < 20; ++i) assert.equal((await ask(second, ids(i, 600))).cached, 576);
      assert.match(second.log, /the stored index was unusable and starts anew/);
      await second.stop();
      // And it has mended itself.
      const third = await startRouter(replicas(mocks), withState(dir));
      const known = await restored(third, Array.from({length: 10}, (_, i) => ids(i, 600)));
      await kill(third);
      assert.equal(known, 10);
    });
  }

  test('a file in the folder\'s place: it says so and starts without', async (t) => {
    const dir = folderOf();
    writeFileSync(path.join(dir, 'index'), 'no folder');
    const weir = await startRouter(replicas(await mocksOf(t, 1)), withState(dir));
    assert.equal((await ask(weir, ids(1, 600))).cached, 0);
    assert.match(weir.log, /the index cannot be kept there/);
    await weir.stop();
  });
});

describe('restart of a replica', {timeout: 120_000}, () => {
  // Asked twice over, of how many prompts was the promise wrong?
  async function recovery(t, cache, retention, fields = {}) {
    const before = await startMock({retention});
    const weir = await routerOf(t, replicas([before], cache, fields));
    const root = ids(1, 2_000);
    const prompts = Array.from({length: 12}, (_, i) => [...root, ...ids(100 + i, 500)]);
    for (const prompt of [...prompts, ...prompts]) await ask(weir, prompt);
    await before.stop();
    const after = await Tool.start('mock', ...flags({retention, listen: before.authority}));
    t.after(() => after.stop());
    await fields.settled?.(weir, prompts[0]);
    const wrong = [];
    for (const [i, prompt] of [...prompts, ...prompts].entries()) {
      const got = await ask(weir, prompt);
      if (got.predicted !== got.cached) wrong.push(i);
    }
    return {wrong, said: `${wrong.length} of 24 wrong, the last is request ${(wrong.at(-1) ?? -1) + 1}`};
  }

  for (const [retention, cache] of [
    ['second-sighting', HYBRID_CACHE],
    ['prompt-end', {...HYBRID_CACHE, retention: 'prompt_end'}],
    ['dense', DENSE_CACHE],
  ]) {
    test(`cached_tokens correct what was promised, ${retention}`, async (t) => {
      const {wrong, said} = await recovery(t, cache, retention);
      t.diagnostic(said);
      assert.ok(wrong.length > 0); // nothing tells it but the answers
      assert.ok(wrong.at(-1) < 12, `${said}: ${wrong}`); // each prompt is wrong once at most
    });
  }

  test('a counter that falls tells it before any answer', async (t) => {
    const settled = (weir, prompt) =>
      eventually('the fall', async () => (await holdings(weir, prompt))[0][0] === 0, 3_000);
    const fields = {metrics: {interval_ms: 50}};
    const {wrong, said} = await recovery(t, HYBRID_CACHE, 'second-sighting', {...fields, settled});
    t.diagnostic(said);
    assert.equal(wrong.length, 0, said);
  });
});
