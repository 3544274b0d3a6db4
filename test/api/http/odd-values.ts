import type { z } from 'zod';
import { AppError } from '../../../domain/errors';

interface Def {
  type: string;
  innerType?: z.ZodType;
  in?: z.ZodType;
  element?: z.ZodType;
  keyType?: z.ZodType;
  valueType?: z.ZodType;
  options?: z.ZodType[];
  entries?: Record<string, string>;
  values?: unknown[];
  shape?: Record<string, z.ZodType>;
}

/** Texts that are no address, day, amount or name, or only nearly. */
export const odd_texts = [
  ...[
    '',
    'x',
    'zz',
    '://',
    'http://',
    'https://[',
    'http://a:b',
    '2026-02-30',
    '2026-13-01T99:99Z',
  ],
  ...['-1', '1e999', 'NaN', '*', '/', '\\', '[', '..', '%', '@', 'constructor', '__proto__'],
];

const numbers = [-1, 0.1 + 0.2, 1e308, Number.MAX_SAFE_INTEGER];

/** A value of the schema's form, with this in the place of each text and each number. */
function filled(schema: z.ZodType, text: string, number: number): unknown {
  const def = schema.def as unknown as Def;
  const inner = def.innerType ?? def.in;
  if (inner !== undefined) return filled(inner, text, number);
  if (def.type === 'object')
    return Object.fromEntries(
      Object.entries(def.shape ?? {}).map(([name, one]) => [name, filled(one, text, number)]),
    );
  if (def.type === 'array') return [filled(def.element as z.ZodType, text, number)];
  if (def.type === 'record') return { [text]: filled(def.valueType as z.ZodType, text, number) };
  if (def.type === 'union') return filled(def.options?.[0] as z.ZodType, text, number);
  if (def.type === 'enum') return Object.values(def.entries ?? {})[0];
  if (def.type === 'literal') return def.values?.[0];
  if (def.type === 'number' || def.type === 'int') return number;
  if (def.type === 'boolean') return true;
  return text;
}

/** What the schema throws at odd values that is no refusal: a fault, answered 500. */
export function faultsOf(schema: z.ZodType): string[] {
  const faults: string[] = [];
  odd_texts.forEach((text, index) => {
    const given = filled(schema, text, numbers[index % numbers.length] as number);
    try {
      schema.safeParse(given);
    } catch (error) {
      if (!(error instanceof AppError)) faults.push(`${JSON.stringify(text)}: ${error}`);
    }
  });
  return faults;
}
