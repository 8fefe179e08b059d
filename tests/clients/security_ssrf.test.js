// No client, and no target, chooses a host that weir connects to: whatever a request names, wherever it names
// it, it goes to the configured target and nowhere else.
import assert from 'node:assert/strict';
import {describe, test} from 'node:test';

import {attackerOf, spellings} from './support/attacker.js';
import {ask} from './support/client.js';
import {hostedWith, jsonOf} from './support/hosted.js';
import {Raw} from './support/raw.js';
import {NAME, inParallel} from './support/relay.js';
import {bearer} from './support/routing.js';
import {plays} from './support/scripted_model.js';
import {isProbe, jsonReply} from './support/upstream.js';
import {user} from './support/weir.js';

const ENDPOINTS = {endpoints: ['chat', 'completions', 'embeddings', 'responses']};
const TURN = [{text: 'Nairobi'}];
const USAGE = {prompt_tokens: 3, completion_tokens: 1, total_tokens: 4};

// A body that each endpoint serves.
const BODIES = {
  '/v1/chat/completions': {model: NAME, messages: [user('ping')]},
  '/v1/completions': {model: NAME, prompt: 'ping'},
  '/v1/embeddings': {model: NAME, input: 'ping'},
  '/v1/responses': {model: NAME, input: 'ping'},
  '/v1/messages': {model: NAME, max_tokens: 9, messages: [user('ping')]},
  '/v1/messages/count_tokens': {model: NAME, messages: [user('ping')]},
  '/v1/tokenize': {model: NAME, prompt: 'ping'},
  '/tokenize': {model: NAME, prompt: 'ping'},
};
const COUNTED_HERE = /tokenize$|count_tokens$/; // answered without a target

const FIELDS = [
  'api_base',
  'apiBase',
  'base_url',
  'baseURL',
  'baseUrl',
  'api_url',
  'url',
  'endpoint',
  'azure_endpoint',
  'host',
  'custom_host',
  'custom_api_base',
  'organization',
  'proxy',
  'http_proxy',
  'proxies',
  'target',
  'target_url',
  'upstream',
  'backend',
  'provider',
  'api_version',
  'deployment',
  'deployment_id',
  'model_list',
  'fallbacks',
  'webhook',
  'webhook_url',
  'callback',
  'callback_url',
  'user_config',
  'litellm_params',
  'aws_bedrock_runtime_endpoint',
  'vertex_location',
  'kv_transfer_params',
  'bootstrap_host',
  'bootstrap_room',
];
const HEADERS = [
  'x-forwarded-host',
  'x-forwarded-server',
  'x-host',
  'x-original-host',
  'x-original-url',
  'x-rewrite-url',
  'x-http-host-override',
  'x-forwarded-proto',
  'x-target-host',
  'x-upstream',
  'x-upstream-host',
  'x-backend',
  'x-backend-host',
  'x-proxy',
  'x-real-host',
  'x-api-base',
  'x-base-url',
  'api-base',
  'base-url',
  'x-openai-host',
  'x-openai-base-url',
  'x-custom-host',
  'x-portkey-custom-host',
  'x-portkey-provider',
  'x-portkey-config',
  'x-portkey-forward-headers',
  'x-litellm-api-base',
  'x-litellm-model-api-base',
  'helicone-openai-api-base',
  'helicone-target-url',
  'x-bf-custom-host',
  'x-gateway-destination-endpoint',
  'x-envoy-original-dst-host',
  'x-prefiller-host-port',
  'x-prefiller-url',
  'x-data-parallel-host-port',
  'proxy',
  'proxy-connection',
  'destination',
  'referer',
  'origin',
  'location',
  'content-location',
  'forwarded',
  'true-client-ip',
  'openai-organization',
  'openai-project',
];

// A replica that answers on every endpoint.
function replica(request, socket) {
  const model = plays(TURN);
  if (request.path === '/v1/embeddings') {
    return socket.write(
      jsonReply({
        object: 'list',
        model: 'served',
        data: [{object: 'embedding', index: 0, embedding: [1]}],
        usage: USAGE,
      }),
    );
  }
  if (request.path === '/v1/completions') {
    const choices = [{index: 0, text: 'Nairobi', logprobs: null, finish_reason: 'stop'}];
    return socket.write(
      jsonReply({id: 'c', object: 'text_completion', created: 1, model: 'served', choices, usage: USAGE}),
    );
  }
  return model(request, socket);
}

const tokenizer = new URL('../../configs/models/weir-tiny', import.meta.url).pathname;

async function guarded(t, http = ENDPOINTS, handler = replica) {
  const attacker = await attackerOf(t);
  const {weir, upstream} = await hostedWith(t, http, handler, {
    keys: {a: 't'},
    more: {models: [{name: NAME, tokenizer, targets: ['hosted']}]},
  });
  return {attacker, weir, upstream};
}

// Each request reached the one target under its own name, and no other.
function assertStayed({attacker, upstream}, served) {
  assert.equal(attacker.asked, 0);
  assert.deepEqual(upstream.malformed, []);
  for (const {headers, path} of upstream.requests) {
    assert.equal(headers.host, `127.0.0.1:${upstream.port}`);
    assert.ok(Object.keys(BODIES).includes(path), path);
    assert.ok(!JSON.stringify(headers).includes(attacker.authority), JSON.stringify(headers));
  }
  if (served !== undefined) assert.equal(upstream.requests.length, served);
}

for (const [route, body] of Object.entries(BODIES)) {
  describe(`no host of the client's choosing: ${route}`, {timeout: 600_000}, () => {
    const local = COUNTED_HERE.test(route);
    const sent = (weir, fields, headers, query = '') =>
      ask(weir, {...body, ...fields}, {route: `${route}${query}`, headers: {...bearer('a'), ...headers}});

    test('named in the body', async (t) => {
      const all = await guarded(t);
      const {attacker, weir} = all;
      const deep = (url) => ({
        api_base: url,
        base_url: url,
        headers: {host: attacker.authority},
        nested: {url},
      });
      const rows = [
        ...FIELDS.map((name) => ({[name]: attacker.url})),
        ...[
          'extra_headers',
          'extra_body',
          'metadata',
          'default_headers',
          'config',
          'client_metadata',
          'litellm_metadata',
        ].map((name) => ({[name]: deep(attacker.url)})),
        ...spellings(attacker).map((url) => ({api_base: url, base_url: url, endpoint: url})),
        Object.fromEntries(FIELDS.map((name) => [name, attacker.url])),
      ];
      let served = 0;
      await inParallel(rows, 8, async (fields) => {
        const reply = await sent(weir, fields);
        // A field that is known by this name and of another type is a fault; nothing else is.
        assert.ok([200, 400].includes(reply.status), `${reply.status} ${reply.text}`);
        served += reply.status === 200 && !local ? 1 : 0;
      });
      assertStayed(all, served);
      const strict = route === '/v1/messages'; // what cannot be said to the target is refused there
      assert.ok(local || strict || served > rows.length / 2, `${served} of ${rows.length}`);
    });

    test('named as the model', async (t) => {
      const all = await guarded(t);
      await inParallel(spellings(all.attacker), 8, async (model) => {
        for (const name of [model, `${NAME}@${model}`, `openai/${model}`, `${model}/${NAME}`]) {
          assert.equal((await sent(all.weir, {model: name})).status, 404, name);
        }
      });
      assertStayed(all, 0);
    });

    test('named in a header, in the query', async (t) => {
      const all = await guarded(t);
      const {attacker, weir} = all;
      const rows = [
        ...HEADERS.flatMap((name) => [[{[name]: attacker.url}], [{[name]: attacker.authority}]]),
        [{forwarded: `for=127.0.0.1;host=${attacker.authority};proto=http`}],
        [{host: attacker.authority}],
        [{host: attacker.host}],
        ...FIELDS.map((name) => [{}, `?${name}=${encodeURIComponent(attacker.url)}`]),
        ...spellings(attacker)
          .filter((url) => /^[!-~]+$/.test(url) && !/[#\\]/.test(url))
          .map((url) => [{'x-forwarded-host': url}, `?api_base=${url}`]),
      ];
      await inParallel(rows, 8, async ([headers, query]) => {
        const reply = await sent(weir, {}, headers, query);
        assert.equal(reply.status, 200, `${JSON.stringify(headers)} ${query} ${reply.text}`);
      });
      assertStayed(all, local ? 0 : rows.length);
    });

    test('named as the target of the request', async (t) => {
      const all = await guarded(t);
      const {attacker, weir} = all;
      const bytes = JSON.stringify(body);
      const targets = [
        ...spellings(attacker)
          .filter((url) => /^[!-~]+$/.test(url))
          .map((url) => `${url}${route}`),
        attacker.authority,
        `/${attacker.url}${route}`,
        `${route}@${attacker.authority}`,
        `@${attacker.authority}${route}`,
        `/..//${attacker.authority}${route}`,
        `///${attacker.authority}${route}`,
        `/\\${attacker.authority}${route}`,
      ];
      await inParallel(targets, 8, async (to) => {
        for (const method of ['POST', 'GET', 'CONNECT']) {
          const raw = await Raw.connect(weir.url);
          raw.send(
            `${method} ${to} HTTP/1.1\r\nhost: ${attacker.authority}\r\nauthorization: Bearer a\r\n` +
              `content-type: application/json\r\ncontent-length: ${bytes.length}\r\n\r\n${bytes}`,
          );
          const {status} = await raw.response();
          raw.drop();
          assert.ok([400, 404, 405].includes(status), `${method} ${to}: ${status}`);
        }
      });
      assertStayed(all, 0);
    });
  });
}

describe('no host of anybody else’s choosing', {timeout: 120_000}, () => {
  test('addresses of images, files and sounds are the target’s to read, not fetched here', async (t) => {
    const all = await guarded(t);
    for (const url of [...spellings(all.attacker), 'file:///etc/passwd', 'http://169.254.169.254/latest']) {
      const chat = [
        {type: 'image_url', image_url: {url}},
        {type: 'image_url', image_url: url},
        {type: 'video_url', video_url: {url}},
        {type: 'audio_url', audio_url: {url}},
        {type: 'file', file: {file_data: url, filename: url}},
      ];
      for (const part of chat) {
        await ask(
          all.weir,
          {model: NAME, messages: [user([{type: 'text', text: 'x'}, part])]},
          {headers: bearer('a')},
        );
        assert.ok(all.upstream.requests.at(-1).body.includes('"x"'));
      }
      const source = {type: 'url', url};
      for (const part of [
        {type: 'image', source},
        {type: 'document', source},
      ]) {
        const body = {...BODIES['/v1/messages'], messages: [user([part])]};
        await ask(all.weir, body, {route: '/v1/messages', headers: bearer('a')});
        await ask(all.weir, body, {route: '/v1/messages/count_tokens', headers: bearer('a')});
      }
      for (const part of [
        {type: 'input_image', image_url: url},
        {type: 'input_file', file_url: url},
      ]) {
        const body = {model: NAME, input: [{role: 'user', content: [part]}]};
        await ask(all.weir, body, {route: '/v1/responses', headers: bearer('a')});
      }
    }
    assertStayed(all);
  });

  for (const status of [201, 300, 301, 302, 303, 307, 308]) {
    test(`${status} with a Location is not followed, and the address goes no further`, async (t) => {
      let fields;
      const all = await guarded(t, ENDPOINTS, (request, socket) =>
        isProbe(request)
          ? socket.write(jsonReply({}))
          : socket.write(jsonReply({error: {message: 'moved'}}, {status, fields})),
      );
      for (const to of ['/v1/chat/completions', '//{}/v1', '@{}/']) {
        const location = to.startsWith('/v1')
          ? `${all.attacker.url}${to}`
          : to.replace('{}', all.attacker.authority);
        fields = {
          location,
          'content-location': location,
          refresh: `0; url=${location}`,
          link: `<${location}>; rel=preload`,
          'alt-svc': `h2="${all.attacker.authority}"`,
        };
        for (const [route, body] of Object.entries(BODIES)) {
          const reply = await ask(all.weir, body, {route, headers: bearer('a')});
          assert.ok(
            !JSON.stringify(reply.headers).includes(all.attacker.authority),
            JSON.stringify(reply.headers),
          );
          assert.ok(!(reply.status >= 300 && reply.status < 400), `${reply.status}`);
        }
      }
      assertStayed(all);
    });
  }

  test('what an answer of a target names is not fetched', async (t) => {
    const all = await guarded(t, ENDPOINTS, (request, socket) =>
      plays([{text: `![x](${all.attacker.url}) <img src=${all.attacker.url}>`}])(request, socket),
    );
    for (const stream of [false, true]) {
      const reply = await ask(all.weir, {...BODIES['/v1/chat/completions'], stream}, {headers: bearer('a')});
      assert.equal(reply.status, 200);
      assert.ok(jsonOf(all.upstream.requests.at(-1)).model);
    }
    assertStayed(all, 2);
  });
});
