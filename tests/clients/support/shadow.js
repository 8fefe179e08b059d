// Weir in front of a replica, with copies of its requests to a shadow target.
import {ADMIN_KEY, Admin, send, withAdmin} from './admin.js';
import {bearer} from './routing.js';
import {eventually} from './raw.js';
import {NAME, counts, relayOf, streamBody, target, upstreamOf} from './relay.js';
import {PREAMBLE, delta, replies, sse} from './upstream.js';

export const OWN_PRICE = {fresh_usd_per_mtok: 3, cached_usd_per_mtok: 0.3, output_usd_per_mtok: 15};
export const SHADOW_PRICE = {fresh_usd_per_mtok: 2, cached_usd_per_mtok: 0.2, output_usd_per_mtok: 8};
export const ALLOWED = {tenant: 't', shadow: true};

// A stream that says these words and what it used: 1000 prompt tokens, of which 800 were cached, and a token a word.
export const answer = (words, cached = 800) =>
  sse([
    PREAMBLE,
    ...words.map((content) => delta({content})),
    delta({}, 'stop'),
    {
      ...PREAMBLE,
      choices: [],
      usage: {
        prompt_tokens: 1000,
        completion_tokens: words.length,
        total_tokens: 1000 + words.length,
        prompt_tokens_details: {cached_tokens: cached},
      },
    },
    '[DONE]',
  ]);
export const WORDS = ['The ', 'capital ', 'is ', 'Nairobi.'];

// `copy`: fields of shadow.copies[0]; `http`: of the shadow target; `keys`: those of clients.
export async function shadowed(
  t,
  {
    own = replies(answer(WORDS)),
    shadow = replies(answer(WORDS, 0)),
    copy = {},
    http = {},
    keys = {a: ALLOWED},
    price = SHADOW_PRICE,
    more = {},
  } = {},
) {
  const primary = await upstreamOf(t, own);
  const other = await upstreamOf(t, shadow);
  const targets = [
    {...target(primary, {}, 'own'), price: OWN_PRICE},
    {...target(other, http, 'other'), price},
  ];
  const change = withAdmin(t, {keys});
  const weir = await relayOf(t, targets, (config, dir) => {
    const changed = change(config, dir);
    return {
      ...changed,
      models: [{name: NAME, targets: ['own']}],
      shadow: {copies: [{model: NAME, target: 'other', share: 1, requests_per_s: 1000, in_flight: 64, ...copy}]},
      ...(typeof more === 'function' ? more(changed, dir) : more),
    };
  });
  return {weir, primary, other, dir: change.dir, file: change.file, admin: new Admin(weir)};
}

export async function askOnce(weir, key = 'a', fields = {}, headers = {}) {
  const response = await weir.post('/v1/chat/completions', streamBody(fields), {...bearer(key), ...headers});
  return {status: response.status, text: await response.text()};
}

export const dropped = (weir) => counts(weir, 'weir_shadow_dropped_total', 'why');
export const total = async (weir, name) =>
  Object.values(await counts(weir, `weir_shadow_${name}`, 'model')).reduce((sum, n) => sum + n, 0);

// All pairs, once there are so many.
export async function pairsOf(weir, count, query = '') {
  let data = [];
  const all = async () => {
    const reply = await send(weir, 'GET', `/admin/v1/shadow/pairs?limit=1000${query}`, undefined, bearer(ADMIN_KEY));
    data = reply.json.data;
    return data.length >= count;
  };
  await eventually(`${count} pairs`, all).catch((error) => {
    throw new Error(`${error.message}: ${JSON.stringify(data)} ${weir.log.slice(-2000)}`);
  });
  return data;
}
