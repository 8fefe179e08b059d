// A model that says what a test wrote: turn by turn, each a tool call or a text, in the dialect of the endpoint
// that it is asked on. Which turn it is follows from the tool results that a conversation holds, so that a client
// may ask other things in between.
import {
  LAST_CHUNK,
  PREAMBLE,
  SSE_FIELDS,
  chatReply,
  chunk,
  delta,
  event,
  head,
  isProbe,
  jsonReply,
  sse,
  usageEvent,
} from './upstream.js';
import {block, message, messageEnd, messageStart, namedEvents, textBlock} from './hosted.js';

const words = (text) => text.match(/\S+\s*|\s+/g) ?? [];
const pieces = (args) => JSON.stringify(args).match(/[^]{1,7}/g);
const callId = (turn) => `call_${turn.call}_${turn.n}`;

const CHAT = {
  results: (body) => body.messages.filter(({role}) => role === 'tool').length,
  deltas(turn) {
    if (!turn.call) return words(turn.text).map((content) => delta({content}));
    const first = {index: 0, id: callId(turn), type: 'function', function: {name: turn.call, arguments: ''}};
    const more = pieces(turn.args).map((part) => ({index: 0, function: {arguments: part}}));
    return [first, ...more].map((call) => delta({tool_calls: [call]}));
  },
  stream: (turn) =>
    sse([
      PREAMBLE,
      ...CHAT.deltas(turn),
      delta({}, turn.call ? 'tool_calls' : 'stop'),
      usageEvent(12, 5),
      '[DONE]',
    ]),
  whole(turn) {
    if (!turn.call) return jsonReply(chatReply(turn.text));
    const call = {
      id: callId(turn),
      type: 'function',
      function: {name: turn.call, arguments: JSON.stringify(turn.args)},
    };
    const said = {role: 'assistant', content: null, refusal: null, tool_calls: [call]};
    const choices = [{index: 0, message: said, logprobs: null, finish_reason: 'tool_calls'}];
    return jsonReply(chatReply('', {choices}));
  },
};

const MESSAGES = {
  results: (body) =>
    body.messages.flatMap(({content}) => content).filter((part) => part?.type === 'tool_result').length,
  block: (turn) => ({type: 'tool_use', id: callId(turn), name: turn.call, input: turn.args}),
  stream(turn) {
    const parts = turn.call
      ? block(
          0,
          {...MESSAGES.block(turn), input: {}},
          ...pieces(turn.args).map((partial_json) => ({type: 'input_json_delta', partial_json})),
        )
      : textBlock(0, ...words(turn.text));
    return namedEvents([messageStart, ...parts, ...messageEnd(turn.call ? 'tool_use' : 'end_turn')]);
  },
  whole: (turn) =>
    jsonReply(
      turn.call
        ? message([MESSAGES.block(turn)], {stop_reason: 'tool_use'})
        : message([{type: 'text', text: turn.text}]),
    ),
};

const USAGE = {
  input_tokens: 100,
  input_tokens_details: {cached_tokens: 60},
  output_tokens: 10,
  output_tokens_details: {reasoning_tokens: 0},
  total_tokens: 110,
};

const RESPONSES = {
  results: (body) => [body.input].flat().filter((item) => item.type === 'function_call_output').length,
  response: (fields = {}) => ({
    id: 'resp_1',
    object: 'response',
    created_at: 1,
    status: 'completed',
    model: 'served',
    output: [],
    usage: USAGE,
    error: null,
    incomplete_details: null,
    instructions: null,
    metadata: {},
    parallel_tool_calls: true,
    temperature: 1,
    tool_choice: 'auto',
    tools: [],
    top_p: 1,
    ...fields,
  }),
  item: (turn) =>
    turn.call
      ? {
          id: `fc_${turn.n}`,
          type: 'function_call',
          status: 'completed',
          call_id: callId(turn),
          name: turn.call,
          arguments: JSON.stringify(turn.args),
        }
      : {
          id: `msg_${turn.n}`,
          type: 'message',
          role: 'assistant',
          status: 'completed',
          content: [{type: 'output_text', text: turn.text, annotations: [], logprobs: []}],
        },
  deltas(turn) {
    const item = RESPONSES.item(turn);
    const of = {item_id: item.id, output_index: 0};
    if (turn.call) {
      return [
        ...pieces(turn.args).map((part) => ({
          type: 'response.function_call_arguments.delta',
          ...of,
          delta: part,
        })),
        {type: 'response.function_call_arguments.done', ...of, name: turn.call, arguments: item.arguments},
      ];
    }
    const at = {...of, content_index: 0};
    const [part] = item.content;
    return [
      {type: 'response.content_part.added', ...at, part: {...part, text: ''}},
      ...words(turn.text).map((word) => ({
        type: 'response.output_text.delta',
        ...at,
        delta: word,
        logprobs: [],
      })),
      {type: 'response.output_text.done', ...at, text: turn.text, logprobs: []},
      {type: 'response.content_part.done', ...at, part},
    ];
  },
  // The events in the order that the official SDK demands.
  events(turn) {
    const item = RESPONSES.item(turn);
    const empty = {...item, status: 'in_progress', ...(turn.call ? {arguments: ''} : {content: []})};
    const begun = RESPONSES.response({status: 'in_progress', usage: null});
    return [
      {type: 'response.created', response: begun},
      {type: 'response.in_progress', response: begun},
      {type: 'response.output_item.added', output_index: 0, item: empty},
      ...RESPONSES.deltas(turn),
      {type: 'response.output_item.done', output_index: 0, item},
      {type: 'response.completed', response: RESPONSES.response({output: [item]})},
    ].map((value, sequence_number) => ({...value, sequence_number}));
  },
  stream: (turn) => namedEvents(RESPONSES.events(turn)),
  whole: (turn) => jsonReply(RESPONSES.response({output: [RESPONSES.item(turn)]})),
};

const DIALECTS = {'/v1/chat/completions': CHAT, '/v1/responses': RESPONSES, '/v1/messages': MESSAGES};

// A handler that plays `turns`; the last one is said again when there is no other.
export const plays = (turns) => (request, socket) => {
  const dialect = DIALECTS[request.path];
  if (isProbe(request) || !dialect)
    return socket.write(jsonReply({}, {status: isProbe(request) ? 200 : 404}));
  const body = JSON.parse(request.body);
  const n = Math.min(dialect.results(body), turns.length - 1);
  const turn = {...turns[n], n};
  return socket.write(body.stream ? dialect.stream(turn) : dialect.whole(turn));
};

// The beginning of a stream that goes on for as long as its client listens.
export const begins = (request, socket) => {
  const first = event(PREAMBLE) + event(delta({content: 'Once '}));
  socket.write(head(200, {...SSE_FIELDS, 'transfer-encoding': 'chunked'}) + chunk(first));
};
