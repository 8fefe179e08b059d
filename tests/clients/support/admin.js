// The admin API of a running weir, over raw HTTP, and weirs that have one.
import assert from 'node:assert/strict';
import {execFileSync, spawn} from 'node:child_process';
import {once} from 'node:events';
import {mkdtempSync, rmdirSync, writeFileSync} from 'node:fs';
import http from 'node:http';
import {tmpdir} from 'node:os';
import path from 'node:path';

import {eventually} from './raw.js';
import {chatBody, relayOf, target, upstreamOf} from './relay.js';
import {folderOf, keysOf} from './routing.js';
import {chatReply, jsonReply, replies} from './upstream.js';

export const ADMIN_KEY = 'weir-admin-0123456789abcdef0123456789abcdef';

// A change of a configuration: keys of the file, a ledger and an admin key in a folder of the test's own, so that
// a second weir can go on where the first one stopped.
export function withAdmin(t, {keys = {}, key = ADMIN_KEY, ledger = true, admin = {}, auth = {}, ...more} = {}) {
  const dir = folderOf();
  const file = path.join(dir, 'admin.key');
  if (key) writeFileSync(file, `${key}\n`, {mode: 0o600});
  const change = (config) => ({
    ...config,
    ...more,
    admin: {...config.admin, ...(key ? {key_file: file} : {}), ...admin},
    auth: {...keysOf(keys, dir), ...(ledger ? {ledger_dir: path.join(dir, 'ledger')} : {}), ...auth},
  });
  return Object.assign(change, {dir, file});
}

// One request to the admin listener with exactly these headers; JSON where the answer is some.
export async function send(weir, method, route, body, headers = {}) {
  const {hostname, port} = new URL(weir.admin);
  const bytes = body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body);
  const request = http.request({
    hostname,
    port,
    method,
    path: route,
    agent: false,
    headers: {
      ...(bytes === undefined ? {} : {'content-type': 'application/json', 'content-length': Buffer.byteLength(bytes)}),
      ...headers,
    },
  });
  request.end(bytes);
  const [answer] = await once(request, 'response');
  let text = '';
  for await (const part of answer.setEncoding('utf8')) text += part;
  const json = /json/.test(answer.headers['content-type'] ?? '') && text ? JSON.parse(text) : undefined;
  return {status: answer.statusCode, headers: answer.headers, text, json};
}

export class Admin {
  constructor(weir, key = ADMIN_KEY) {
    Object.assign(this, {weir, key});
  }

  send(method, route, body) {
    return send(this.weir, method, `/admin/v1/${route}`, body, {authorization: `Bearer ${this.key}`});
  }

  // The JSON of an answer that must have this status.
  async call(method, route, body, status = method === 'POST' && route === 'keys' ? 201 : 200) {
    const answer = await this.send(method, route, body);
    assert.equal(answer.status, status, `${method} ${route}: ${answer.text}`);
    return answer.json;
  }

  // The error of one that must fail.
  async refused(method, route, body, status, code) {
    const {error} = await this.call(method, route, body, status);
    if (code) assert.equal(error.code, code, JSON.stringify(error));
    return error;
  }

  create(fields) {
    return this.call('POST', 'keys', fields);
  }

  async all(limit) {
    const out = [];
    for (let cursor; cursor !== null;) {
      const query = [limit && `limit=${limit}`, cursor && `cursor=${cursor}`].filter(Boolean).join('&');
      const page = await this.call('GET', query ? `keys?${query}` : 'keys');
      if (limit) assert.ok(page.data.length <= limit);
      out.push(...page.data);
      cursor = page.next;
    }
    return out;
  }
}

// Weir with an admin API in front of one scripted replica.
export async function adminOf(t, options = {}, handler = replies(jsonReply(chatReply()))) {
  const upstream = await upstreamOf(t, handler);
  const change = options.change ?? withAdmin(t, options);
  const targets = [{...target(upstream), price: {fresh_usd_per_mtok: 2, output_usd_per_mtok: 8}}];
  const weir = await relayOf(t, targets, change);
  return {weir, upstream, targets, change, admin: new Admin(weir)};
}

// The status of a chat request.
export async function statusOf(weir, {headers = {}, fields = {}} = {}) {
  const answer = await weir.post('/v1/chat/completions', chatBody(fields), headers);
  await answer.arrayBuffer();
  return answer.status;
}

// A SIGHUP, until the log has said this of it.
export async function reload(weir, said) {
  const before = weir.log.length;
  weir.child.kill('SIGHUP');
  await eventually('the reload', () => said.test(weir.log.slice(before)));
}

// A small disk of the test's own; null where mounting is not allowed.
export function diskOf(t, size) {
  const disk = mkdtempSync(path.join(tmpdir(), 'weir-disk-'));
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', disk], {stdio: 'ignore'});
  } catch {
    rmdirSync(disk);
    return null;
  }
  t.after(() => {
    execFileSync('umount', ['-l', disk]); // weir still has it open
    rmdirSync(disk);
  });
  return disk;
}

// A command to its end.
export async function run(...args) {
  const child = spawn(process.env.WEIR_BIN, args, {stdio: ['ignore', 'pipe', 'pipe']});
  const out = {out: '', err: ''};
  child.stdout.on('data', (bytes) => (out.out += bytes));
  child.stderr.on('data', (bytes) => (out.err += bytes));
  const [code] = await once(child, 'close');
  return {...out, code};
}
