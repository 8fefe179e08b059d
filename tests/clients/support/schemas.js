// Validates what Weir writes against OpenAI's own schemas.
import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import path from 'node:path';

import Ajv2020 from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';

// The document is OpenAPI 3.1 with leftovers of 3.0: `nullable`, which JSON Schema 2020-12 does not know.
function withoutNullable(node) {
  if (Array.isArray(node)) return node.map(withoutNullable);
  if (typeof node !== 'object' || node === null) return node;
  const {nullable, ...rest} = Object.fromEntries(
    Object.entries(node).map(([key, value]) => [key, withoutNullable(value)]),
  );
  if (typeof nullable !== 'boolean') return nullable === undefined ? rest : {...rest, nullable};
  if (!nullable) return rest;
  const typeOnly = typeof rest.type === 'string' && rest.enum === undefined && rest.const === undefined;
  return typeOnly ? {...rest, type: [rest.type, 'null']} : {anyOf: [rest, {type: 'null'}]};
}

const document = withoutNullable(
  JSON.parse(readFileSync(path.join(import.meta.dirname, '../data/openai-subset.json'))),
);
const ajv = new Ajv2020({strict: false, allErrors: true});
addFormats(ajv);
ajv.addFormat('unixtime', true);
ajv.addSchema(document, 'openai');

const validators = new Map();

export function assertSchema(name, value) {
  if (!validators.has(name)) validators.set(name, ajv.compile({$ref: `openai#/components/schemas/${name}`}));
  const validate = validators.get(name);
  assert.ok(validate(value), `${name}: ${ajv.errorsText(validate.errors)} in ${JSON.stringify(value)}`);
}
