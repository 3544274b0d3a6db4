import type { Asked, Wire } from '../providers/kind';
import { parseExact, printExact } from '../wire/exact';
import { withoutNamed } from '../wire/named';
import { membersOf } from '../wire/scan';
import { type Body, isObject } from '../wire/values';
import { withMarkAtEnd } from './cache-marks';

/** A body as its provider takes it, and what was left out of it. */
interface Fitted {
  text: string;
  left_out: readonly string[];
}

/** True if the wire takes this body of its family as it is. */
export function takesAsIs(wire: Wire, body: Buffer): boolean {
  const { drop, lacks, drop_empty, rename, drop_anywhere = [], members } = wire;
  const is_plain = drop_empty === undefined && members === undefined;
  const is_kept = !drop?.length && !lacks?.length && Object.keys(rename ?? {}).length === 0;
  const within = [...drop_anywhere, ...namesInside(wire)];
  return is_plain && is_kept && !within.some((name) => body.includes(`"${name}"`));
}

/** The members that are left out of objects by the objects' names. */
function namesInside({ drop_inside = {}, drop_empty_inside = {} }: Wire): string[] {
  return [...Object.values(drop_inside), ...Object.values(drop_empty_inside)].flat();
}

// By the path, or by a header.
const said_elsewhere = new Set(['model', 'stream', 'serviceTier']);

/**
 * A body in the words of one provider: without the members that it refuses, with its own names and
 * those that it wants beside them. The values that stay keep their bytes.
 */
export function fitted(text: string, wire: Wire, asked: Asked): Fitted {
  const { drop_empty = [], rename = {}, drop_anywhere = [], members } = wire;
  // What it lacks says nothing by now.
  const drop = [...(wire.drop ?? []), ...(wire.lacks ?? []), ...drop_anywhere];
  const added = members?.(asked) ?? {};
  const parts = new Map<string, string>();
  const left_out: string[] = [];
  const renamed = new Set<string>();
  for (const [name, { start, end }] of membersOf(text, text.indexOf('{'))) {
    const value = text.slice(start, end);
    const is_empty = drop_empty.includes(name) && /^\[\s*\]$/.test(value.trim());
    if (drop.includes(name) || is_empty || Object.hasOwn(added, name)) {
      if (!said_elsewhere.has(name)) left_out.push(name);
      continue;
    }
    const to = Object.hasOwn(rename, name) ? rename[name] : undefined;
    // One that says nothing gives way to the name that says something.
    if (to !== undefined && value.trim() === 'null') continue;
    if (to !== undefined) renamed.add(to);
    else if (renamed.has(name)) continue;
    parts.set(to ?? name, value);
  }
  for (const [name, value] of Object.entries(added)) {
    if (value !== undefined) parts.set(name, JSON.stringify(value));
  }
  const marked = wire.marks_blocks === true ? withMarkAtEnd(parts) : parts;
  const members_text = [...marked].map(([name, value]) => `${JSON.stringify(name)}:${value}`);
  const whole = withoutNamed(`{${members_text.join(',')}}`, drop_anywhere);
  left_out.push(...whole.found);
  return { text: withoutInner(whole.text, wire, left_out), left_out: [...new Set(left_out)] };
}

/** Without some members of the objects that stand under these names, wherever they stand. */
function withoutInner(text: string, wire: Wire, left_out: string[]): string {
  if (!namesInside(wire).some((name) => text.includes(`"${name}"`))) return text;
  const whole = parseExact(text);
  const found: Cut = { any: false, telling: new Set() };
  cut(whole, wire, found);
  left_out.push(...found.telling);
  return found.any ? printExact(whole) : text;
}

/** What has been left out, and that of it which said something. */
interface Cut {
  any: boolean;
  telling: Set<string>;
}

function cut(value: unknown, wire: Wire, found: Cut): void {
  if (Array.isArray(value)) {
    for (const one of value) cut(one, wire, found);
    return;
  }
  if (!isObject(value)) return;
  for (const [name, member] of Object.entries(value as Body)) {
    // What a schema calls so is a name of its own.
    if (name === 'properties' || name === 'input') continue;
    for (const one of Array.isArray(member) ? member : [member])
      if (isObject(one)) cutMembers(one, name, wire, found);
    cut(member, wire, found);
  }
}

function cutMembers(of: Body, name: string, wire: Wire, found: Cut): void {
  const { drop_inside = {}, drop_empty_inside = {} } = wire;
  const refused = Object.hasOwn(drop_inside, name) ? drop_inside[name] : [];
  const empty = Object.hasOwn(drop_empty_inside, name) ? drop_empty_inside[name] : [];
  for (const one of [...(refused ?? []), ...(empty ?? [])]) {
    const says = Object.hasOwn(of, one) && !isEmpty(of[one]);
    if (!Object.hasOwn(of, one) || (says && !refused?.includes(one))) continue;
    delete of[one];
    found.any = true;
    if (says) found.telling.add(`${name}.${one}`);
  }
}

function isEmpty(value: unknown): boolean {
  return value === null || (Array.isArray(value) && value.length === 0);
}
