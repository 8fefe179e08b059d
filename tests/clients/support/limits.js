// Weir with keys that have limits, in front of an upstream that reports what it used.
import assert from 'node:assert/strict';

import {chatBody, relayOf, target, upstreamOf} from './relay.js';
import {bearer, folderOf, keysOf} from './routing.js';
import {chatReply, jsonReply, replies} from './upstream.js';

// Prices in dollars per million tokens; a token costs as many millionths.
export const PRICE = {fresh_usd_per_mtok: 2, cached_usd_per_mtok: 0.2, cache_write_usd_per_mtok: 2.5, output_usd_per_mtok: 8};

export const withKeys = (keys, more = {}) => (config, dir) => ({
  ...config,
  ...more,
  auth: {...keysOf(keys, dir), ledger_dir: `${folderOf()}/ledger`},
});
export const limited = (limits, more = {}) => ({tenant: 't', limits, ...more});

export const PLAIN = {prompt_tokens: 10, completion_tokens: 5, total_tokens: 15};
export const used = (usage = PLAIN) => replies(jsonReply(chatReply('Nairobi', {usage})));

export const chat = (weir, key, fields = {}) => weir.post('/v1/chat/completions', chatBody(fields), bearer(key));
export const headers = (answer) => Object.fromEntries(answer.headers);

export async function relayWith(t, keys, {handler = used(), price = PRICE, more} = {}) {
  const upstream = await upstreamOf(t, handler);
  const weir = await relayOf(t, [{...target(upstream), price}], withKeys(keys, more));
  return {weir, upstream};
}

// The error of an answer that a limit refused.
export async function refused(answer, status, code) {
  const body = await answer.json();
  assert.equal(answer.status, status, JSON.stringify(body));
  assert.equal(body.error.code, code, JSON.stringify(body));
  return body.error;
}
