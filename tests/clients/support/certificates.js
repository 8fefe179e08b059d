// Certificates for one test run, made by the openssl command: an authority and servers that it did or did
// not sign.
import {execFileSync} from 'node:child_process';
import {readFileSync, writeFileSync} from 'node:fs';
import path from 'node:path';

const openssl = (...args) => execFileSync('openssl', args, {stdio: ['ignore', 'ignore', 'pipe']});
const KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];

export class Authority {
  #made = 0;

  constructor(dir, name = 'authority') {
    this.dir = dir;
    this.file = path.join(dir, `${name}.pem`);
    this.key = path.join(dir, `${name}.key`);
    this.name = name;
    const req = [
      'req',
      '-x509',
      ...KEY,
      '-keyout',
      this.key,
      '-out',
      this.file,
      '-days',
      '2',
      '-subj',
      `/CN=${name}`,
    ];
    openssl(...req);
  }

  // {key, cert} of a server with these subjectAltNames, valid until `end` (YYYYMMDDHHMMSSZ).
  issue(names, end = '20991231235959Z') {
    const base = path.join(this.dir, `${this.name}-${this.#made++}`);
    openssl('req', ...KEY, '-keyout', `${base}.key`, '-out', `${base}.csr`, '-subj', '/CN=server');
    const config = `[ca]\ndefault_ca=d\n[d]\ndatabase=${base}.db\nnew_certs_dir=${this.dir}\nrand_serial=yes
default_md=sha256\npolicy=p\nx509_extensions=e\n[p]\ncommonName=supplied\n[e]\nsubjectAltName=${names}\n`;
    writeFileSync(`${base}.cnf`, config);
    writeFileSync(`${base}.db`, '');
    const dates = ['-startdate', '20000101000000Z', '-enddate', end];
    const files = ['-in', `${base}.csr`, '-out', `${base}.pem`, '-cert', this.file, '-keyfile', this.key];
    openssl('ca', '-batch', '-notext', '-config', `${base}.cnf`, ...dates, ...files);
    return {key: readFileSync(`${base}.key`), cert: readFileSync(`${base}.pem`)};
  }
}
