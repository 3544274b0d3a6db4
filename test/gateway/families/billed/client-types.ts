import { readFileSync } from 'node:fs';
import path from 'node:path';
import { root } from '../../../../runtime/root';

// What the official clients' types say of the wires: the tests that walk them fail for what is new.

const openai = (file: string) => `openai/resources/${file}.d.ts`;
export const anthropic = '@anthropic-ai/sdk/resources/beta/messages/messages.d.ts';
export const chatFile = openai('chat/completions/completions');
export const responseFile = openai('responses/responses');

const textOf = (file: string) => readFileSync(path.join(root, 'node_modules', file), 'utf8');

/** The text of an interface, or of one in a namespace. */
function interfaceText(text: string, name: string): string {
  const [head = ''] =
    new RegExp(`^ *(export )?interface ${name} (extends [^{]*)?\\{`, 'm').exec(text) ?? [];
  expect(`${name} ${head}`).toContain('interface');
  const indent = /^ */.exec(head)?.[0] ?? '';
  const start = text.indexOf(head);
  return text.slice(start, text.indexOf(`\n${indent}}`, start));
}

/** The members of an interface, without those that are sent as headers. */
export function membersOf(file: string, name: string): string[] {
  const shape = interfaceText(textOf(file), name);
  const indent = (/^ */.exec(shape)?.[0].length ?? 0) + 4;
  const members = shape.matchAll(
    new RegExp(`(?:/\\*\\*((?:(?!\\*/)[^])*)\\*/\\s*?)?\\n {${indent}}(\\w+)\\??:`, 'g'),
  );
  return [...members]
    .filter(([, about]) => !about?.includes('Header param'))
    .map(([, , n]) => n ?? '');
}

/** The names of the interfaces of a union, without their namespaces. */
export function namesOf(file: string, union: string): string[] {
  const [, names = ''] =
    new RegExp(`^export type ${union} = ([^;]*);`, 'm').exec(textOf(file)) ?? [];
  return names.split('|').map((name) => name.trim().replace(/^\w+\./, ''));
}

/** The types of the tools of a union. */
export function toolTypes(file: string, union: string): string[] {
  const text = textOf(file);
  return namesOf(file, union).flatMap((name) => {
    const shape = interfaceText(text, name);
    // A shape that extends another one has its type.
    const [, whole] = /^[^{]*extends (\w+)/.exec(shape) ?? [];
    const typed = whole ? interfaceText(text, whole) : shape;
    const [, types = "''"] = /^ +type\??: ([^;]*);$/m.exec(typed) ?? [];
    return [...types.matchAll(/'([^']*)'/g)].map(([, type]) => type ?? '');
  });
}
