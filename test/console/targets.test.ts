import {
  freeId,
  idsOf,
  originOf,
  type Typed,
  targetOf,
  withTarget,
} from '../../console/web/setup/target';
import { listedKinds } from '../../gateway/config/kinds';
import { checkConfig } from '../../gateway/config/settings';

const place = {
  resource: 'acme-eu',
  region: 'eu-west-1',
  project: 'acme',
  location: 'europe-west4',
};

const wires = listedKinds().flatMap((listed) =>
  listed.wires.map(({ shape, base_url }) => {
    const kind = { ...listed, needs: [...listed.needs], takes: [...listed.takes] };
    return [`${kind.kind} ${shape}`, { kind, shape, base_url }] as const;
  }),
);

test.each(wires)('what the first run makes of %s is a target that gateways run', (_, wire) => {
  const typed = {
    kind: wire.kind as Typed['kind'],
    shape: wire.shape,
    provider: wire.base_url === null ? 'own' : '',
    place,
    base_url: wire.base_url === null ? 'https://models.example/v1' : '',
    variable: 'MODELS_KEY',
    models: 'one, two',
  };
  const target = targetOf(typed);
  expect(target).toMatchObject({ kind: wire.kind.kind, models: ['one', 'two'] });
  const { problems } = checkConfig(withTarget(null, target as { kind: string }, 'one'));
  expect(problems).toEqual([]);
  // An address that gateways allow has no part in it that nobody filled in.
  expect(originOf(typed)).toMatch(/^https?:\/\/[a-z0-9.:-]+$/);
  expect(targetOf({ ...typed, models: ' ' })).toBeUndefined();
});

test('a target that lacks its place, its key or its address is not given to gateways', () => {
  const typedOf = (name: string): Typed => {
    const kind = listedKinds().find((one) => one.kind === name) as unknown as Typed['kind'];
    const shape = kind.wires[0]?.shape as Typed['shape'];
    return { ...{ kind, shape, place, provider: '', base_url: '' }, variable: 'K', models: 'm' };
  };
  expect(targetOf(typedOf('azure'))).toBeDefined();
  expect(targetOf({ ...typedOf('azure'), place: {} })).toBeUndefined();
  expect(targetOf({ ...typedOf('openai'), variable: '' })).toBeUndefined();
  expect(targetOf(typedOf('compatible'))).toBeUndefined();
});

test('a second target of a kind stands beside the first, and takes its place only if it is told to', () => {
  const openai = { id: 'openai', kind: 'openai', models: ['a'] };
  const other = { id: 'openai-2', kind: 'xai', models: ['b'] };
  const config = { limits: { x: 1 }, providers: { on_error: 'next', targets: [openai, other] } };
  expect(idsOf(config, { kind: 'openai' })).toEqual(['openai']);
  expect(freeId(config, { kind: 'openai' })).toBe('openai-3');
  expect([freeId(config, { kind: 'groq' }), freeId(null, { kind: 'openai' })]).toEqual([
    'groq',
    'openai',
  ]);
  const target = { kind: 'openai', models: ['c'] };
  expect(withTarget(config, target, 'openai-3')).toEqual({
    limits: { x: 1 },
    providers: { on_error: 'next', targets: [openai, other, { id: 'openai-3', ...target }] },
  });
  expect(withTarget(config, target, 'openai').providers.targets).toEqual([
    { id: 'openai', ...target },
    other,
  ]);
});
