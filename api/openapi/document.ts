import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { root } from '../../runtime/root';
import { API_VERSION } from '../../runtime/version';
import type { Route } from '../http/route';
import { routes } from '../table';
import { exampleBody, pathHelp, withHelp } from './field-help';
import { type Refusal, refusalsOf } from './refusals';

const file = path.join(root, 'openapi.json');

type Schema = Record<string, unknown>;

/** The OpenAPI 3.1 document of the route tables. */
export function openapi(): Schema {
  const paths: Record<string, Record<string, Schema>> = {};
  for (const row of routes) {
    const at = row.path.replace(/:(\w+)/g, '{$1}');
    paths[at] = { ...paths[at], [row.method]: operation(row) };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'svc control plane',
      version: API_VERSION,
      description: [
        'Prepaid wallets, prices, keys, and the reserve and settle cycle of priced requests.',
        'Money is a JSON number of major units with at most 15 significant digits and 9 decimals.',
        'POSTs that move money, and those that make what could be there twice, take an `Idempotency-Key`: the first answer is kept for 7 days and given again.',
        'People with a JWT who belong to several organizations name one in `X-Org-Id`; platform admins name `org_id`.',
      ].join(' '),
    },
    security: [{ access_key: [] }],
    paths,
    components: {
      securitySchemes: {
        access_key: { type: 'http', scheme: 'bearer', description: 'An access key: svc_ak_...' },
      },
      schemas: { Error: errorSchema },
      responses: {
        Error: {
          description: 'A refusal that says what to do.',
          content: json({ $ref: '#/components/schemas/Error' }),
        },
        ...sharedRefusals(),
      },
    },
  };
}

const errorSchema: Schema = {
  type: 'object',
  required: ['type', 'error', 'request_id'],
  properties: {
    type: { const: 'error' },
    error: {
      type: 'object',
      required: ['code', 'message', 'type', 'param'],
      properties: {
        code: { type: 'string' },
        message: { type: 'string' },
        type: { type: 'string' },
        param: { type: ['string', 'null'], description: 'The field that is wrong.' },
      },
    },
    request_id: { type: 'string' },
    cost_ticket: {
      type: 'object',
      description: 'On 402: what is missing, and the ticket that waits for it.',
    },
  },
};

function operation(row: Route): Schema {
  const { properties = {}, required = [] } = inputSchema(row);
  const inPath = [...row.path.matchAll(/:(\w+)/g)].map((match) => match[1] as string);
  const known = (name: string) => row.path_names[name] ?? name;
  const others = Object.keys(properties).filter((name) => !inPath.map(known).includes(name));
  const parameter = (place: 'path' | 'query') => (name: string) => {
    const { description, ...schema } = properties[known(name)] ?? { type: 'string' };
    const words = place === 'path' ? pathHelp(row.path, name) : description;
    const required_here = place === 'path' || required.includes(name);
    return { name, in: place, required: required_here, description: words, schema };
  };
  const parameters = [
    ...inPath.map(parameter('path')),
    ...(hasBody(row) ? [] : others.map(parameter('query'))),
    ...(row.is_idempotent ? [idempotencyKey] : []),
  ];
  const body = {
    type: 'object',
    properties: Object.fromEntries(others.map((name) => [name, properties[name]])),
    required: required.filter((name) => others.includes(name)),
    additionalProperties: false,
  };
  const example = exampleBody(`${row.method} ${row.path}`, body.required);
  return {
    summary: row.summary,
    description: `Access: ${row.access.label}.`,
    tags: [tagOf(row)],
    operationId: operationId(row),
    ...(row.is_deprecated ? { deprecated: true } : {}),
    ...(row.access.label === 'public' ? { security: [] } : {}),
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(row.is_raw ? { requestBody: providerEvent } : {}),
    ...(!hasBody(row) || others.length === 0
      ? {}
      : { requestBody: { required: required.length > 0, content: json(body, example) } }),
    responses: {
      [row.status]: {
        description: 'Done.',
        content: json(
          row.answer ? withHelp(z.toJSONSchema(row.answer, { io: 'output' })) : { type: 'object' },
        ),
      },
      ...refusals(row),
      default: { $ref: '#/components/responses/Error' },
    },
  };
}

/** The refusals of a route by their status, each a response that routes share. */
function refusals(row: Route): Record<string, Schema> {
  const responses = byStatus(refusalsOf(row)).map(([status, codes]): [string, Schema] => [
    String(status),
    { $ref: `#/components/responses/${responseName(status, codes)}` },
  ]);
  return Object.fromEntries(responses);
}

function byStatus(all: readonly Refusal[]): [number, string[]][] {
  const found = new Map<number, string[]>();
  for (const { status, code } of all) found.set(status, [...(found.get(status) ?? []), code]);
  return [...found];
}

/** `invalid_field` and `unknown_field` of 422: `Refused422_invalid_field_unknown_field`. */
function responseName(status: number, codes: readonly string[]): string {
  return `Refused${status}_${codes.join('-')}`;
}

/** Each set of refusals that some route gives under one status. */
function sharedRefusals(): Record<string, Schema> {
  const all = routes.flatMap((row) => byStatus(refusalsOf(row)));
  return Object.fromEntries(
    all.map(([status, codes]) => [responseName(status, codes), refused(status, codes)]),
  );
}

function refused(status: number, codes: readonly string[]): Schema {
  const code = { enum: codes };
  const error = { type: 'object', properties: { code } };
  const ticket = status === 402 ? { required: ['cost_ticket'] } : {};
  const headers = status === 429 ? { headers: limitHeaders } : status === 503 ? retryLater : {};
  return {
    description: `${codes.join(', ')}.`,
    ...headers,
    content: json({
      allOf: [
        { $ref: '#/components/schemas/Error' },
        { type: 'object', properties: { error }, ...ticket },
      ],
    }),
  };
}

const seconds = (description: string) => ({ description, schema: { type: 'integer' } });
const retryLater = { headers: { 'Retry-After': seconds('Seconds until a repeat may succeed.') } };
const limitHeaders = {
  ...retryLater.headers,
  'X-RateLimit-Limit': seconds('The limit.'),
  'X-RateLimit-Remaining': seconds('What is left of it: 0.'),
  'X-RateLimit-Reset': seconds('When it ends, in seconds since 1970.'),
};

const providerEvent: Schema = {
  required: true,
  description: "The provider's event, byte for byte as it was signed.",
  content: json({ type: 'object' }),
};

/**
 * Groups routes by their noun: `wallets`, `admin wallets`, `gateway`; paths outside /v1 are
 * `operations`.
 */
function tagOf({ path: at }: Route): string {
  const [, version, first = '', second = ''] = at.split('/');
  if (version !== 'v1') return 'operations';
  return first === 'admin' ? `admin ${second}` : first;
}

/** `post /v1/tokens/:name/rotate` is postTokensNameRotate: stable names for generated clients. */
function operationId({ method, path: at }: Route): string {
  const words = at.replace(/^\/v1/, '').match(/[A-Za-z0-9]+/g) ?? [];
  return method + words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('');
}

/** A DELETE reads a body too; its few optional fields are shown where its clients put them. */
function hasBody({ method }: Route): boolean {
  return method === 'post' || method === 'put' || method === 'patch';
}

function inputSchema(row: Route): { properties?: Record<string, Schema>; required?: string[] } {
  return withHelp(z.toJSONSchema(row.input, { io: 'input', unrepresentable: 'any' })) as never;
}

function json(schema: Schema, example?: object): Schema {
  const { $schema: _, ...plain } = schema;
  return { 'application/json': { schema: plain, ...(example ? { example } : {}) } };
}

const idempotencyKey: Schema = {
  name: 'Idempotency-Key',
  in: 'header',
  required: false,
  description:
    'Random text of your own, 200 characters at most: a repeat under it gets the first answer.',
  schema: { type: 'string' },
};

/** The document as it is committed. */
export function openapiText(): string {
  return `${JSON.stringify(openapi(), null, 2)}\n`;
}

/** Run as a program: writes the document. */
export const main = () => writeFile(file, openapiText());
