import {
  cacheLifeIn,
  chatMembers,
  demandReader,
  messageMembers,
  responseMembers,
} from '../../../../gateway/families/billed';
import { byRun, nothing_asked } from '../../../../gateway/families/demand';

// What a request marks for a cache, and what it asks of providers that bill each run of a tool.

const wires = {
  chat: demandReader(chatMembers),
  responses: demandReader(responseMembers),
  messages: demandReader(messageMembers),
};

const hour = { cache_control: { type: 'ephemeral', ttl: '1h' } };
const minutes = { cache_control: { type: 'ephemeral' } };
const said = (content: unknown) => ({ messages: [{ role: 'user', content }] });
test.each<[object, '5m' | '1h' | undefined]>([
  [minutes, '5m'],
  [{ cache_control: { ttl: '5m' } }, '5m'],
  [hour, '1h'],
  [{ cache_control: { ttl: '24h' } }, '1h'],
  [said([{ type: 'text', text: 'x', ...hour }]), '1h'],
  [said([{ type: 'tool_result', content: [{ type: 'text', text: 'x', ...hour }] }]), '1h'],
  [{ system: [{ type: 'text', text: 'x', ...minutes }] }, '5m'],
  [{ tools: [{ name: 'f', ...minutes }], ...said([{ type: 'text', ...hour }]) }, '1h'],
  [{ tools: [{ name: 'f', ...hour }], ...said([{ type: 'text', ...minutes }]) }, '1h'],
  [{ tools: [{ type: 'function', function: { name: 'f', ...hour } }] }, '1h'],
  [{ cache_control: null, ...said('cache_control') }, undefined],
])('%j marks a cache, if any, of the longest life that it names: %s', (body, life) => {
  expect(cacheLifeIn(body)).toBe(life);
});

test.each(Object.entries(wires))('a mark on the wire of %s is asked for', (_, read) => {
  expect(read({ ...hour })).toEqual({ ...nothing_asked, cache_life: '1h' });
});

test('where each run of a tool is billed, as many are held for as are expected', () => {
  const demandOf = (body: Record<string, unknown>) => byRun(wires.responses(body), body, ['xai']);
  const tools = [{ type: 'code_interpreter' }];
  expect(demandOf({ tools }).units).toEqual({ containers: 10 });
  expect(demandOf({ tools, max_tool_calls: 3 }).units).toEqual({ containers: 3 });
  const input = [{ role: 'user', content: [{ type: 'input_file', file_url: 'https://a/b.pdf' }] }];
  expect(demandOf({ input })).toMatchObject({
    needs: [{ param: 'input', amount: 'per_file_search', providers: ['xai'] }],
    units: { file_searches: 10 },
  });
  expect(demandOf({ input: 'Hi' })).toEqual(nothing_asked);
});
