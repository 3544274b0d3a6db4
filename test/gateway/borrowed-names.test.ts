import { request } from 'undici';
import type { Family } from '../../gateway/families/family';
import { routes } from '../../gateway/routes';
import { chat, post } from '../support/gateway';
import { encode, good } from './families/sound-forms';
import { bearer, gateway, rpc, world } from './mcp/serving';

// What every object of the language has without saying so.
const names = ['constructor', '__proto__', 'toString', 'hasOwnProperty', 'valueOf', 'then'];
const priced = routes.filter((route) => route.family !== undefined);

/** A body for any family that names this model. */
function bodyOf(family: Family | undefined, model: string): { body: Buffer; type: string } {
  if (family?.read !== undefined) {
    const parts = good.map((part) => (part.name === 'model' ? { ...part, value: model } : part));
    return { body: encode(parts), type: 'multipart/form-data; boundary=b0undary' };
  }
  const messages = [{ role: 'user', content: 'Hello' }];
  const body = { model, messages, input: 'Hello', prompt: 'Hello', max_tokens: 64, voice: 'alloy' };
  return { body: Buffer.from(JSON.stringify(body)), type: 'application/json' };
}

test.each(priced)(
  '$path knows no model by the names that objects have',
  async ({ path, family }) => {
    for (const name of names) {
      const { body, type } = bodyOf(family, name);
      const headers = { ...bearer(world.key), 'content-type': type };
      const answer = await request(world.url + path, { method: 'POST', headers, body });
      const { error } = (await answer.body.json()) as { error: { code: string } };
      expect([name, answer.statusCode, error.code]).toEqual([name, 404, 'model_not_found']);
    }
  },
);

test.each(names)(
  'a chat passes whose tools, sessions and metadata are called "%s"',
  async (name) => {
    const more = JSON.stringify({ X: name }).replace('"X"', `"${name}"`);
    const tools = [{ type: 'function', function: { name, parameters: { properties: {} } } }];
    const text = JSON.stringify(chat('Hello', { tools, session_id: name, user: name })).replace(
      '{',
      `{"metadata":${more},"${name}":1,`,
    );
    const answer = await post(`${world.url}/v1/chat/completions`, world.key, text, {
      'x-session-id': name,
      [name]: name,
    });
    expect(answer.status).toBe(200);
  },
);

test.each(names)(
  'there is no MCP server "%s", and a tool of that name is one like others',
  async (name) => {
    const call = { method: 'tools/call', params: { name, arguments: { [name]: 1 } } };
    const { key } = world;
    expect((await rpc(call, { key, at: `/${name}` })).status).toBe(404);
    expect((await rpc(call, { key, at: '/tools' })).status).toBe(200);
    expect(
      (await request(`${gateway.url}/${name}`, { headers: bearer(world.key) })).statusCode,
    ).toBe(404);
    expect(
      (await request(`${world.url}/v1/models/${name}`, { headers: bearer(world.key) })).statusCode,
    ).toBe(404);
  },
);
