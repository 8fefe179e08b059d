// Hosted APIs as scripted upstreams speak them, and weir in front of one with a key of its own there.
import {writeFileSync} from 'node:fs';
import path from 'node:path';

import {withKeys} from './limits.js';
import {relayOf, target, upstreamOf} from './relay.js';
import {LAST_CHUNK, SSE_FIELDS, chunk, head, jsonReply} from './upstream.js';

export const UPSTREAM_KEY = 'sk-upstream-secret';

// `http`: fields of the target; `keys`: those of clients; what is of weir's configuration in `more`.
export async function hostedWith(t, http, handler, {keys = {a: 't'}, price, targets = [], more} = {}) {
  const upstream = await upstreamOf(t, handler);
  const hosted = target(upstream, http, 'hosted');
  if (price) hosted.price = price;
  const weir = await relayOf(t, [hosted, ...targets], (config, dir) => {
    hosted.http.api_key_file = path.join(dir, 'upstream.key');
    writeFileSync(hosted.http.api_key_file, UPSTREAM_KEY, {mode: 0o600});
    return withKeys(keys, more)(config, dir);
  });
  return {weir, upstream};
}

export const jsonOf = (request) => JSON.parse(request.body);

// An answer of a messages API: 100 fresh, 1000 cached, 200 written, 50 out.
export const MESSAGES_USAGE = {
  input_tokens: 100,
  cache_creation_input_tokens: 200,
  cache_read_input_tokens: 1000,
  output_tokens: 50,
};
export const message = (content, fields = {}) => ({
  id: 'msg_up',
  type: 'message',
  role: 'assistant',
  model: 'claude-up',
  content,
  stop_reason: 'end_turn',
  stop_sequence: null,
  usage: MESSAGES_USAGE,
  ...fields,
});
export const messagesError = (type, text, status, fields = {}) =>
  jsonReply({type: 'error', error: {type, message: text}, request_id: 'req_up'}, {status, fields});

// Named events, each a chunk of its own; `end` false: the connection stays open behind them.
export const namedEvents = (events, {end = true} = {}) =>
  Buffer.concat([
    Buffer.from(head(200, {...SSE_FIELDS, 'transfer-encoding': 'chunked'})),
    ...events.map((value) => chunk(`event: ${value.type}\ndata: ${JSON.stringify(value)}\n\n`)),
    Buffer.from(end ? LAST_CHUNK : ''),
  ]);

export const messageStart = {
  type: 'message_start',
  message: message([], {stop_reason: null, usage: {...MESSAGES_USAGE, output_tokens: 1}}),
};
export const block = (index, content_block, ...deltas) => [
  {type: 'content_block_start', index, content_block},
  ...deltas.map((delta) => ({type: 'content_block_delta', index, delta})),
  {type: 'content_block_stop', index},
];
export const textBlock = (index, ...texts) =>
  block(index, {type: 'text', text: ''}, ...texts.map((text) => ({type: 'text_delta', text})));
export const messageEnd = (stop_reason = 'end_turn') => [
  {type: 'message_delta', delta: {stop_reason, stop_sequence: null}, usage: {output_tokens: 50}},
  {type: 'message_stop'},
];
