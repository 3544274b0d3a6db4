import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { parseSettings, settingsSchema } from '../../../gateway/config/settings';
import { root } from '../../../runtime/root';

// Walks the schema of the gateway's configuration: each key is read, checked, and proved to act.

type Step = string | number;

interface Leaf {
  /** With 0 for a member of a list, and a name for one of a record. */
  at: Step[];
  schema: z.ZodType;
}

process.env.TEST_MODELS_KEY = 'upstream-secret';

const leaves = leavesOf(settingsSchema, []);

function leavesOf(schema: z.ZodType, at: Step[]): Leaf[] {
  const inner = bare(schema);
  if (inner instanceof z.ZodObject) {
    return Object.entries(inner.shape).flatMap(([key, value]) =>
      leavesOf(value as z.ZodType, [...at, key]),
    );
  }
  if (inner instanceof z.ZodRecord) return leavesOf(inner.valueType as z.ZodType, [...at, 'x']);
  if (inner instanceof z.ZodUnion) {
    // One form or another: the words are proved beside the members of the objects.
    const objects = (inner.options as z.ZodType[]).filter((one) => one instanceof z.ZodObject);
    return objects.flatMap((one) => leavesOf(one, at));
  }
  if (inner instanceof z.ZodArray) return leavesOf(inner.element as z.ZodType, [...at, 0]);
  return [{ at, schema: inner }];
}

/** The type behind defaults, options and conversions. */
function bare(schema: z.ZodType): z.ZodType {
  const { def } = schema as { def?: { innerType?: z.ZodType; in?: z.ZodType } };
  const next = def?.innerType ?? def?.in;
  return next === undefined || schema instanceof z.ZodObject ? schema : bare(next);
}

function nameOf(at: Step[]): string {
  return at
    .map((step) => (typeof step === 'number' ? `[${step}]` : `.${step}`))
    .join('')
    .replace(/^\./, '');
}

const target = {
  id: 'a',
  provider: 'openai',
  shape: 'openai',
  base_url: 'http://127.0.0.1/v1',
  api_key_env: 'TEST_MODELS_KEY',
  models: ['gpt-4o'],
};

/** A configuration that has nothing but what is needed, and one value somewhere. */
function withValue(at: Step[], value: unknown): string {
  const whole: Record<string, unknown> = { providers: { targets: [{ ...target }] } };
  let place = whole as Record<Step, unknown>;
  for (const [index, step] of at.slice(0, -1).entries()) {
    if (typeof place[step] !== 'object') place[step] = typeof at[index + 1] === 'number' ? [] : {};
    place = place[step] as Record<Step, unknown>;
  }
  place[at.at(-1) as Step] = value;
  return JSON.stringify(whole);
}

function refusalOf(text: string): string {
  try {
    parseSettings(text);
  } catch (error) {
    return (error as Error).message;
  }
  return 'accepted';
}

test('there are keys to walk', () => {
  expect(leaves.length).toBeGreaterThan(60);
});

test.each(leaves.map(({ at }) => [nameOf(at), at] as const))(
  '%s of a wrong type is refused by its path',
  (name, at) => {
    // No key takes this: it is neither text, number, flag nor list.
    expect(refusalOf(withValue(at, { no: 'such value' }))).toContain(`${name}:`);
  },
);

test.each([...new Set(leaves.map(({ at }) => nameOf(at.slice(0, -1))))].map((name) => [name]))(
  'beside the keys of "%s" an unknown one is refused by its path',
  (name) => {
    const { at } = leaves.find((leaf) => nameOf(leaf.at.slice(0, -1)) === name) as Leaf;
    const key = at.at(-1);
    // The members of lists and records of plain values have no keys.
    if (typeof key === 'number' || key === 'x') return;
    const unknown = [...at.slice(0, -1), 'no_such_key'];
    expect(refusalOf(withValue(unknown, 1))).toContain(`${nameOf(unknown)}: there is no such key`);
  },
);

const folder = path.join(root, 'test/gateway');
const others = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts') && !file.endsWith(path.basename(__filename)))
  .map((file) => readFileSync(path.join(folder, file), 'utf8'))
  .join('\n');

test('each key is set by a test that sees it act', () => {
  const named = (at: Step[]) => at.findLast((step) => typeof step === 'string' && step !== 'x');
  const unproved = leaves
    .filter(({ at }) => !new RegExp(`\\b${named(at)}\\b['"]?\\s*[:},]`).test(others))
    .map(({ at }) => nameOf(at));
  expect(unproved).toEqual([]);
});
