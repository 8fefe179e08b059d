// A listener that no request may ever reach, on a loopback address of its own.
import {once} from 'node:events';
import net from 'node:net';

const HOST = '127.0.0.2';

export async function attackerOf(t) {
  const server = net.createServer((socket) => {
    attacker.asked += 1;
    socket.destroy();
  });
  server.listen(0, HOST);
  await once(server, 'listening');
  t.after(() => server.close());
  const {port} = server.address();
  const attacker = {asked: 0, host: HOST, port, authority: `${HOST}:${port}`, url: `http://${HOST}:${port}`};
  return attacker;
}

// The attacker's address in every spelling that some parser of URLs reads as it.
export function spellings({host, port}) {
  const n = 0x7f000002;
  const octal = host
    .split('.')
    .map((part) => `0${Number(part).toString(8)}`)
    .join('.');
  const hosts = [
    host,
    `${host}.`,
    `${n}`,
    `0x${n.toString(16)}`,
    `0${n.toString(8)}`,
    octal,
    '0x7f.0.0.2',
    '127.2',
    '127.0.2',
    `[::ffff:${host}]`,
    '[::ffff:7f00:2]',
    '[0:0:0:0:0:ffff:7f00:2]',
    '１２７.0.0.2',
    '127。0。0。2',
    '%31%32%37.0.0.2',
  ];
  return [
    ...hosts.map((name) => `http://${name}:${port}`),
    `http://allowed.example@${host}:${port}/`,
    `http://allowed.example:80@${host}:${port}/`,
    `http://${host}:${port}#@allowed.example/`,
    `http://${host}:${port}\\@allowed.example/`,
    `http:\\\\${host}:${port}`,
    `http:/${host}:${port}`,
    `//${host}:${port}/v1`,
    `${host}:${port}`,
    `HTTP://${host}:${port}`,
    `https://${host}:${port}`,
    `ftp://${host}:${port}/`,
    `gopher://${host}:${port}/_x`,
    `ws://${host}:${port}/`,
    `dict://${host}:${port}/x`,
  ];
}
