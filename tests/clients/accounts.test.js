// Six accounts per replica: a request goes where every account has room for it, and weir says which one had none.
// Mocks of SGLang publish how many of their state slots and pages are taken.
import assert from 'node:assert/strict';
import {describe, test} from 'node:test';

import {ask as post} from './support/client.js';
import {eventually} from './support/raw.js';
import {chatBody, counts, relayOf, streamBody} from './support/relay.js';
import {startMock} from './support/routing.js';

const SLOTS = 4;
const ROOM = {flavor: 'sglang', 'state-slots': SLOTS, 'capacity-tokens': 1_000_000, batch: 64};
const ACCOUNTS = {state_slots: SLOTS, context_tokens: 1_000_000};

const targetOf = (mock, name, accounts = ACCOUNTS, fields = {}) => ({
  name,
  http: {base_url: `${mock.url}/v1`},
  metrics: {interval_ms: 50},
  accounts,
  ...fields,
});

async function mocksOf(t, options) {
  const mocks = [];
  for (const one of options) mocks.push(await startMock({...ROOM, ...one}));
  t.after(() => Promise.all(mocks.map((mock) => mock.stop())));
  return mocks;
}

const explain = async (weir, body = chatBody()) =>
  (await fetch(`${weir.admin}/admin/v1/explain`, {method: 'POST', headers: {'content-type': 'application/json'}, body: JSON.stringify(body)})).json();
const verdict = async (weir, name) => (await explain(weir)).candidates.find(({target}) => target === name).verdict;

// Takes `count` places of a mock past the gateway, until aborted.
function occupy(t, mock, count, words = 1) {
  const gone = new AbortController();
  t.after(() => gone.abort());
  const body = JSON.stringify({
    model: 'mock',
    messages: [{role: 'user', content: 'w '.repeat(words)}],
    stream: true,
    max_tokens: 100_000,
  });
  for (let i = 0; i < count; ++i) {
    fetch(`${mock.url}/v1/chat/completions`, {
      method: 'POST',
      body,
      headers: {'content-type': 'application/json'},
      signal: gone.signal,
    })
      .then((reply) => reply.text())
      .catch(() => {});
  }
  return gone;
}

const targetsOf = (weir) => counts(weir, 'weir_upstream_attempts_total', 'target');

describe('accounts of a replica', {timeout: 120_000}, () => {
  test('full state slots and free pages: no new sequence goes there, and explain and metrics say why', async (t) => {
    const [full, free] = await mocksOf(t, [{'decode-ms': 50}, {}]);
    const weir = await relayOf(t, [targetOf(full, 'full'), targetOf(free, 'free')]);
    occupy(t, full, SLOTS);
    await eventually('the report', async () => (await verdict(weir, 'full')) === 'no_state_slot');
    for (let i = 0; i < 12; ++i) assert.equal((await post(weir, chatBody())).status, 200);
    assert.deepEqual(Object.keys(await targetsOf(weir)), ['free']);
    const {candidates} = await explain(weir);
    const {accounts} = candidates.find(({target}) => target === 'full');
    assert.deepEqual(accounts.state_slots, {used: SLOTS, total: SLOTS, kept: 0});
    assert.ok(accounts.context_tokens.used < accounts.context_tokens.total / 2);
    const away = await counts(weir, 'weir_target_turned_away_total', 'why', {target: 'full'});
    assert.deepEqual(away, {no_state_slot: 12});
    const used = await counts(weir, 'weir_target_account_used', 'account', {target: 'full'});
    assert.equal(used.state_slots, 1);
  });

  test('full pages and free state slots: the reverse', async (t) => {
    const small = {'capacity-tokens': 4096, 'state-slots': 64};
    const [full, free] = await mocksOf(t, [{...small, 'decode-ms': 50}, {'state-slots': 64}]);
    const accounts = {state_slots: 64, context_tokens: 4096};
    const weir = await relayOf(t, [targetOf(full, 'full', accounts), targetOf(free, 'free', {...ACCOUNTS, state_slots: 64})]);
    occupy(t, full, 4, 2100);
    await eventually('the report', async () => (await verdict(weir, 'full')) === 'no_context_pages');
    for (let i = 0; i < 8; ++i) assert.equal((await post(weir, chatBody())).status, 200);
    assert.deepEqual(Object.keys(await targetsOf(weir)), ['free']);
    assert.deepEqual(await counts(weir, 'weir_target_turned_away_total', 'why', {target: 'full'}), {no_context_pages: 8});
  });

  test('our own requests count at once, without a report', async (t) => {
    const [one, two] = await mocksOf(t, [{'decode-ms': 100}, {'decode-ms': 100}]);
    const weir = await relayOf(t, [one, two].map((mock, i) => targetOf(mock, `r${i}`, ACCOUNTS, {metrics: undefined})));
    const replies = await Promise.all(Array.from({length: 2 * SLOTS}, () => post(weir, streamBody({max_tokens: 5}))));
    assert.ok(replies.every(({status}) => status === 200));
    assert.deepEqual(await targetsOf(weir), {r0: SLOTS, r1: SLOTS});
  });

  test('a request that finds no room waits for one that ends', async (t) => {
    const [only] = await mocksOf(t, [{'decode-ms': 100}]);
    const weir = await relayOf(t, [targetOf(only, 'only', ACCOUNTS, {metrics: undefined})]);
    const replies = await Promise.all(Array.from({length: 3 * SLOTS}, () => post(weir, streamBody({max_tokens: 5}))));
    assert.ok(replies.every(({status}) => status === 200));
    const [waited] = await weir.metric(/^weir_placements_waited_total/);
    assert.equal(waited, 2 * SLOTS);
  });

  test('what is kept for replication is nobody’s', async (t) => {
    const [kept, free] = await mocksOf(t, [{'decode-ms': 50}, {}]);
    const accounts = {...ACCOUNTS, replication: {state_slots: 2}};
    const weir = await relayOf(t, [targetOf(kept, 'kept', accounts), targetOf(free, 'free')]);
    occupy(t, kept, SLOTS - 2);
    await eventually('the report', async () => (await verdict(weir, 'kept')) === 'kept_for_replication');
    assert.equal((await post(weir, chatBody())).status, 200);
    assert.deepEqual(Object.keys(await targetsOf(weir)), ['free']);
  });

  test('accounts that cannot be right are a fault at the start, with the sum', async (t) => {
    const [mock] = await mocksOf(t, [{}]);
    const over = {memory_bytes: '100GiB', weights_bytes: '90GiB', state_slots: 64, state_bytes: 449_372_160};
    const start = (accounts) => relayOf(t, [targetOf(mock, 'r', accounts)]);
    await assert.rejects(start(over), /accounts\.memory_bytes: is too little: weights and runtime take 96636764160, 64 slots of state 28759818240/);
    await assert.rejects(start({state_slots: 4, replication: {state_slots: 4}}), /accounts\.replication: needs more state_slots/);
    await assert.rejects(start({slots: 4}), /accounts\.slots/);
  });

  test('the time of a checkpoint on the link counts into the predicted first token', async (t) => {
    const [mock] = await mocksOf(t, [{}]);
    const accounts = {state_bytes: 449_372_160, transfer_bytes_per_s: 449_372_160};
    const weir = await relayOf(t, [targetOf(mock, 'r', accounts)]);
    const {candidates} = await explain(weir);
    assert.equal(candidates[0].accounts.transfer_s, 1);
  });
});
