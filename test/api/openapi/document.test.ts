import files, { readFile } from 'node:fs/promises';
import path from 'node:path';
import type { Context } from 'koa';
import type { Route } from '../../../api/http/route';
import { docs } from '../../../api/openapi/docs';
import { openapi, openapiText } from '../../../api/openapi/document';
import { exampleBody } from '../../../api/openapi/field-help';
import { refusalsOf } from '../../../api/openapi/refusals';
import { routes } from '../../../api/table';
import { root } from '../../../runtime/root';
import { type CallApi, startApi } from '../../support/api';

let call: CallApi;
let close: () => Promise<void>;

beforeAll(async () => {
  ({ call, close } = await startApi());
});

afterAll(() => close());

test('the committed openapi.json is what the route tables say; renew it with npm run openapi', async () => {
  const committed = await readFile(path.join(root, 'openapi.json'), 'utf8');
  expect(committed).toBe(openapiText());
});

test('every route is in the document with its access and its good status', () => {
  const { paths } = openapi() as {
    paths: Record<string, Record<string, { description: string; responses: object }>>;
  };
  for (const row of routes) {
    const operation = paths[row.path.replace(/:(\w+)/g, '{$1}')]?.[row.method];
    expect(operation?.description).toContain(row.access.label);
    expect(Object.keys(operation?.responses ?? {})).toContain(String(row.status));
  }
});

// What the specification demands of the control plane, as it says it, beside what the tables here
// happen to hold.
const demanded = `
  get /v1/wallets: member
  get /v1/wallets/balance: member
  get /v1/wallets/{id}/transactions: member
  post /v1/wallets/credit: org:billing
  post /v1/wallets/allocate: org:billing
  post /v1/wallets/reclaim: org:billing
  get /v1/model-pricing: public
  get /v1/admin/model-pricing: platform:admin
  post /v1/admin/model-pricing: platform:admin
  put /v1/admin/model-pricing/{id}: platform:admin
  delete /v1/admin/model-pricing/{id}: platform:admin
  get /v1/admin/exchange-rates: platform:admin
  put /v1/admin/exchange-rates: platform:admin
  get /v1/admin/wallets: platform:admin
  get /v1/admin/wallets/{id}/transactions: platform:admin
  post /v1/admin/wallets/credit: platform:admin
  put /v1/admin/organizations/{id}/wallet-settings: platform:admin
  get /v1/agents/{id}/usage-constraints: agents:read
  post /v1/agents/{id}/usage-constraints: agents:write
  put /v1/agents/{id}/usage-constraints/{cid}: agents:write
  delete /v1/agents/{id}/usage-constraints/{cid}: agents:write
  post /v1/payments/create-checkout: member
  post /v1/payments/confirm-checkout: member
  get /v1/payments/sessions/{id}: member
  get /v1/payments/history: org:billing
  get /v1/payments/settings: org:billing
  put /v1/payments/settings: org:billing
  post /v1/payments/webhooks/{provider}: public
  get /v1/admin/payments: platform:admin
  get /v1/admin/payments/config: platform:admin
  put /v1/admin/payments/config: platform:admin
  post /v1/admin/payments/refund: platform:admin
  post /v1/gateway/wallets/reserve: control_plane
  post /v1/gateway/wallets/settle: control_plane
  post /v1/gateway/wallets/redeem-ticket: control_plane
  get /v1/gateway/agents/{id}/usage-check: control_plane
  post /v1/gateway/agents/{id}/usage-increment: control_plane
  post /v1/tokens: tokens:write
  get /v1/tokens: tokens:write
  get /v1/tokens/{name}: tokens:write
  delete /v1/tokens/{name}: tokens:write
`
  .trim()
  .split(/\n\s*/);

test('the routes that the specification demands are there, each with its access', () => {
  const served = routes.map(
    ({ method, path: at, access }) => `${method} ${at.replace(/:(\w+)/g, '{$1}')}: ${access.label}`,
  );
  expect(demanded.filter((one) => !served.includes(one))).toEqual([]);
});

test('operation ids are unique, and every reference in the document leads somewhere', () => {
  const document = openapi();
  const operations = Object.values(document.paths as Record<string, object>).flatMap(
    (methods) => Object.values(methods) as { operationId: string }[],
  );
  expect(new Set(operations.map(({ operationId }) => operationId)).size).toBe(routes.length);
  for (const [, reference = ''] of JSON.stringify(document).matchAll(/"\$ref":"#\/([^"]+)"/g)) {
    const target = reference
      .split('/')
      .reduce<unknown>((at, key) => (at as Record<string, unknown>)?.[key], document);
    expect([reference, typeof target]).toEqual([reference, 'object']);
  }
});

interface Operation {
  parameters?: { name: string; description?: string }[];
  requestBody?: { content: { 'application/json': { schema: Shape; example?: object } } };
}

interface Shape {
  properties?: Record<string, { description?: string } & Shape>;
  items?: Shape;
}

function operations(): [string, Operation][] {
  const paths = openapi().paths as Record<string, Record<string, Operation>>;
  return Object.entries(paths).flatMap(([at, methods]) =>
    Object.entries(methods).map(([method, one]): [string, Operation] => [`${method} ${at}`, one]),
  );
}

function undescribed(shape: Shape = {}): string[] {
  const own = Object.entries(shape.properties ?? {}).flatMap(([name, field]) => [
    ...(field.description ? [] : [name]),
    ...undescribed(field),
  ]);
  return [...own, ...(shape.items ? undescribed(shape.items) : [])];
}

test('every field that a route takes is described; api/openapi/field-help.ts has the words', () => {
  const missing = operations().flatMap(([name, { parameters = [], requestBody }]) => [
    ...parameters.filter(({ description }) => !description).map((one) => `${name} ${one.name}`),
    ...undescribed(requestBody?.content['application/json'].schema).map((one) => `${name} ${one}`),
  ]);
  expect(missing).toEqual([]);
});

function hasJsonBody({ method, is_raw }: Route): boolean {
  return ['post', 'put', 'patch'].includes(method) && !is_raw;
}

test('every body on the page is one that its route takes; api/openapi/examples.ts has them', () => {
  for (const row of routes.filter(hasJsonBody)) {
    const names = [...row.path.matchAll(/:(\w+)/g)].map(([, name = '']) => name);
    const inPath = names.map((name) => [row.path_names[name] ?? name, 'something']);
    const taken = new Map(inPath as [string, string][]);
    const required = Object.entries(row.input.shape)
      .filter(([name, field]) => !taken.has(name) && !field.safeParse(undefined).success)
      .map(([name]) => name);
    const example = exampleBody(`${row.method} ${row.path}`, required);
    const { error } = row.input.safeParse({ ...Object.fromEntries(inPath), ...example });
    expect([row.path, example && error?.issues]).toEqual([row.path, undefined]);
    expect([row.path, typeof example]).toEqual([row.path, 'object']);
  }
});

test('the document is served without a credential', async () => {
  const answer = await call('get', '/openapi.json');
  expect(answer).toMatchObject({ status: 200, body: { openapi: '3.1.0' } });
  expect(answer.text).toBe(openapiText());
});

test('the page of the document and everything it loads come from this process', async () => {
  const page = await call('get', '/docs');
  expect(page.status).toBe(200);
  expect(page.headers['content-type']).toContain('text/html');
  const loaded = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map((match) =>
    String(match[1]),
  );
  expect(loaded.length).toBeGreaterThan(1);
  for (const address of loaded) {
    expect(address).toMatch(/^\/docs\//);
    const asset = await call('get', address);
    expect([address, asset.status, asset.text.length > 0]).toEqual([address, 200, true]);
    expect(asset.headers['content-type']).toMatch(address.endsWith('.css') ? /css/ : /javascript/);
  }
});

test('a file of the page that could not be read is read again for the next who asks', async () => {
  const path = '/docs/swagger-ui.css';
  const docsNow = docs();
  const ask = async () => {
    const ctx = { path, method: 'GET', set() {}, body: '' };
    await docsNow(ctx as unknown as Context, async () => undefined);
    return ctx.body;
  };
  jest.spyOn(files, 'readFile').mockRejectedValueOnce(new Error('EMFILE'));
  await expect(ask()).rejects.toThrow('EMFILE');
  expect(await ask()).toMatch(/swagger-ui/);
});

test('the page serves its own files only', async () => {
  for (const address of ['/docs/package.json', '/docs/..%2fpackage.json', '/docs/']) {
    expect((await call('get', address)).status).toBe(404);
  }
});

test('every refusal of a route is in the document, under its status and with its code', () => {
  const { paths, components } = openapi() as {
    paths: Record<string, Record<string, { responses: Record<string, { $ref?: string }> }>>;
    components: { responses: Record<string, Refused> };
  };
  for (const row of routes) {
    const { responses } = paths[row.path.replace(/:(\w+)/g, '{$1}')]?.[row.method] ?? {};
    for (const { status, code } of refusalsOf(row)) {
      const name = responses?.[String(status)]?.$ref?.split('/').at(-1) ?? '';
      const schema = components.responses[name]?.content['application/json'].schema;
      expect([row.path, status, schema?.allOf[1].properties.error.properties.code.enum]).toEqual([
        ...[row.path, status, expect.arrayContaining([code])],
      ]);
    }
    // A caller without a credential is refused everywhere but where none is asked for.
    expect([row.path, '401' in (responses ?? {})]).toEqual([
      row.path,
      row.access.label !== 'public' || refusalsOf(row).some(({ status }) => status === 401),
    ]);
  }
});

interface Refused {
  content: {
    'application/json': {
      schema: {
        allOf: [object, { properties: { error: { properties: { code: { enum: string[] } } } } }];
      };
    };
  };
}
