import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { root } from '../runtime/root';
import { rows } from './server/table';

// The types of what the pages ask and are answered, made of openapi.json for the rows of the
// console's server: npm run console:types.

interface Schema {
  type?: string | string[];
  enum?: unknown[];
  const?: unknown;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
  items?: Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
}

interface Operation {
  parameters?: { name: string; in: string; required: boolean; schema: Schema }[];
  requestBody?: { content: Record<string, { schema: Schema }> };
  responses: Record<string, { content?: Record<string, { schema?: Schema }> }>;
}

const file = path.join(root, 'console/web/generated/api.ts');

/** Writes the file of types. */
export function main(): void {
  writeFileSync(file, apiTypes());
}

/** The text of the file of types. Throws for a row whose route the API does not have. */
export function apiTypes(): string {
  const { paths } = JSON.parse(readFileSync(path.join(root, 'openapi.json'), 'utf8')) as {
    paths: Record<string, Record<string, Operation>>;
  };
  const lines = rows.map(({ method, path: own, to }) => {
    const operation = paths[to.replace(/:(\w+)/g, '{$1}')]?.[method];
    if (operation === undefined) throw new Error(`The API has no ${method} ${to}.`);
    return `  '${method.toUpperCase()} ${own}': ${operationType(operation)};\n`;
  });
  return `// Made by npm run console:types of openapi.json; not written by hand.\nexport interface Api {\n${lines.join('')}}\n`;
}

function operationType({ parameters = [], requestBody, responses }: Operation): string {
  const query = parameters.filter((one) => one.in === 'query');
  const names = parameters.filter((one) => one.in === 'path').map(({ name }) => `${name}: string`);
  const asked = query.map(
    ({ name, schema, required }) =>
      `'${name}'${required ? '' : '?'}: ${typeOf(schema)} | undefined`,
  );
  const body = Object.values(requestBody?.content ?? {})[0]?.schema;
  const done = Object.entries(responses).find(([status]) => status.startsWith('2'))?.[1];
  const answer = done?.content?.['application/json']?.schema;
  return `{ names: { ${names.join('; ')} }; query: { ${asked.join('; ')} }; body: ${body ? typeOf(body, true) : 'undefined'}; answer: ${answer ? typeOf(answer) : 'unknown'} }`;
}

/** A schema as TypeScript; in what is asked, a member that may be absent may be undefined. */
function typeOf(schema: Schema, is_asked = false): string {
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(' | ');
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return `(${choices.map((one) => typeOf(one, is_asked)).join(' | ')})`;
  if (schema.allOf) return `(${schema.allOf.map((one) => typeOf(one, is_asked)).join(' & ')})`;
  const kinds = [schema.type ?? []].flat();
  if (kinds.length === 0) return 'unknown';
  return kinds.map((kind) => kindOf(kind, schema, is_asked)).join(' | ');
}

function kindOf(kind: string, schema: Schema, is_asked: boolean): string {
  if (kind === 'integer') return 'number';
  if (kind === 'array') return `(${typeOf(schema.items ?? {}, is_asked)})[]`;
  if (kind === 'object') return objectType(schema, is_asked);
  return kind;
}

function objectType(
  { properties, required = [], additionalProperties }: Schema,
  is_asked: boolean,
): string {
  if (!properties) {
    const value =
      typeof additionalProperties === 'object' ? typeOf(additionalProperties) : 'unknown';
    return `Record<string, ${value}>`;
  }
  const members = Object.entries(properties).map(([name, schema]) => {
    const is_needed = required.includes(name);
    const type = typeOf(schema, is_asked);
    return `'${name}'${is_needed ? '' : '?'}: ${type}${is_asked && !is_needed ? ' | undefined' : ''}`;
  });
  return `{ ${members.join('; ')} }`;
}
