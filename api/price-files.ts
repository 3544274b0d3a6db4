import { readFileSync, writeFileSync } from 'node:fs';
import { parse } from 'yaml';
import type { ZodError } from 'zod';
import type { Plan } from '../domain/prices/plan';
import { ConfigError } from '../runtime/config';
import * as answers from './answers/prices';

// The files of `npm run admin -- prices`. A ConfigError says in a line what is wrong with one.

/** A plan of prices that `prices import` has written. */
export function readPlan(file: string): Plan {
  const read = answers.plan.safeParse(parsed(file, 'JSON', JSON.parse));
  if (read.success) return read.data as Plan;
  throw new ConfigError(`${file} is no plan of prices: ${problemOf(read.error)}`);
}

/** Writes a plan, as `readPlan` reads it. */
export function writePlan(file: string, plan: Plan): void {
  const read = answers.plan.safeParse(plan);
  if (!read.success)
    throw new ConfigError(`The plan cannot be taken over: ${problemOf(read.error)}`);
  try {
    writeFileSync(file, `${JSON.stringify(plan, null, 2)}\n`);
  } catch (error) {
    throw new ConfigError(`--out ${file} cannot be written: ${(error as Error).message}`);
  }
}

/** A configuration of gateways, of which what it serves is read and nothing else. */
export function readConfig(file: string): unknown {
  return parsed(file, 'YAML', (text) => parse(text));
}

function parsed(file: string, form: string, read: (text: string) => unknown): unknown {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw new ConfigError(`${file} cannot be read: ${(error as Error).message}`);
  }
  try {
    return read(text);
  } catch (error) {
    throw new ConfigError(`${file} is no ${form}: ${(error as Error).message}`);
  }
}

function problemOf({ issues: [first] }: ZodError): string {
  return `${first?.path.join('.')}: ${first?.message}`;
}
