import { readFileSync } from 'node:fs';
import path from 'node:path';
import { apiTypes } from '../../console/api-types';
import { rows } from '../../console/server/table';
import { root } from '../../runtime/root';

interface Operation {
  parameters?: { name: string; in: string }[];
  requestBody?: { content: { 'application/json'?: { schema: { properties?: object } } } };
}

const { paths } = JSON.parse(readFileSync(path.join(root, 'openapi.json'), 'utf8')) as {
  paths: Record<string, Record<string, Operation>>;
};

const operationOf = (to: string, method: string) =>
  paths[to.replace(/:(\w+)/g, '{$1}')]?.[method] as Operation;

test.each(rows)('$method $path stands for a route of the API, of the same names', (row) => {
  const { method, path: own, to, has_org } = row;
  const operation = operationOf(to, method);
  expect(operation).toBeDefined();
  const namesOf = (text: string) => [...text.matchAll(/:(\w+)/g)].map(([, name]) => name);
  expect(namesOf(own)).toEqual(namesOf(to));
  expect(own).toMatch(/^\/api\/[a-z-]+(\/(:\w+|[a-z-]+))*$/);
  // An operator's organization is added to each route that takes one, but for those of the chat,
  // which is of people.
  const asked = operation.parameters?.filter((one) => one.in === 'query').map(({ name }) => name);
  const body = operation.requestBody?.content['application/json']?.schema.properties ?? {};
  const takes_org =
    method === 'get' || method === 'delete' ? asked?.includes('org_id') : 'org_id' in body;
  if (!own.startsWith('/api/chat/')) expect(has_org).toBe(takes_org === true);
});

test('no row is of gateways or of webhooks, takes whatever comes, or stands twice', () => {
  const closed = rows.filter(({ to }) => /\/gateway\/|^\/v1\/payments\/webhook|\*|\(/.test(to));
  expect(closed).toEqual([]);
  const names = rows.map(({ method, path: own }) => `${method} ${own}`);
  expect(new Set(names).size).toBe(names.length);
  // The console's own.
  const own = names.filter((name) => / \/api\/(session|health)(\/|$)/.test(name));
  expect(own).toEqual([]);
});

test('every file has a page to go back to when it is refused, with no other names than its own', () => {
  const files = rows.filter(({ answers }) => answers === 'file');
  expect(files.length).toBeGreaterThan(0);
  for (const { path: own, page } of files) {
    expect([own, page]).toEqual([own, expect.stringMatching(/^\/[a-z]/)]);
    for (const [name] of page?.matchAll(/:\w+/g) ?? []) expect(own.split('/')).toContain(name);
  }
});

test('every top-up of the chat is one of the organization, by the surface chat', () => {
  const made = rows.filter(({ path: own }) => /^\/api\/chat\/.*create-checkout$/.test(own));
  expect(made).toHaveLength(1);
  expect(made[0]?.forced).toEqual({
    surface: 'chat',
    target_wallet_owner_type: 'organization',
    target_wallet_owner_id: null,
  });
});

test('the types of the pages are those of openapi.json; renew them with npm run console:types', () => {
  const written = readFileSync(path.join(root, 'console/web/generated/api.ts'), 'utf8');
  expect(written === apiTypes()).toBe(true);
});
