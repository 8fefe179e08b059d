// node make_openai_subset.js openapi.json > openai-subset.json
// Keeps of OpenAI's OpenAPI document (repository openai/openai-openapi, MIT) the schemas of the answers that
// Weir writes.
import {readFileSync} from 'node:fs';

const ROOTS = [
  'CreateChatCompletionResponse',
  'CreateChatCompletionStreamResponse',
  'CreateCompletionResponse',
  'ListModelsResponse',
  'Model',
  'ErrorResponse',
];

const document = JSON.parse(readFileSync(process.argv[2]));
const schemas = {};

function keep(name) {
  if (name in schemas) return;
  schemas[name] = document.components.schemas[name];
  if (schemas[name] === undefined) throw new Error(`no schema ${name}`);
  JSON.stringify(schemas[name], (key, value) => {
    if (key === '$ref') keep(value.slice('#/components/schemas/'.length));
    return value;
  });
}

// Prose and vendor extensions validate nothing.
const strip = (value) => {
  if (Array.isArray(value)) return value.map(strip);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(
        ([key, inner]) =>
          !key.startsWith('x-') && !(key === 'description' && typeof inner === 'string') && key !== 'example',
      )
      .map(([key, inner]) => [key, strip(inner)]),
  );
};

ROOTS.forEach(keep);
const sorted = Object.fromEntries(
  Object.keys(schemas)
    .sort()
    .map((name) => [name, strip(schemas[name])]),
);
console.log(
  JSON.stringify({openapi: document.openapi, info: document.info, components: {schemas: sorted}}, null, 1),
);
