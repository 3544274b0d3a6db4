import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { root } from '../runtime/root';
import { default_routes } from './config/policies';
import type { Family } from './families/family';
import { mcp } from './families/mcp';
import { type Route, routes } from './routes';
import { protocolOf, socket_paths } from './sockets/frames';

// What the families' own members do not say, for people.
const charged: Record<string, string> = {
  chat_completions: 'tokens: cached, cache writes, reasoning and sound at their prices',
  unified_chat_completions: 'as chat; the translated usage of the provider',
  responses:
    'tokens, those of pictures too; searches by kind and containers by number; `background` is 422',
  messages:
    'tokens: cache reads, writes for 5 minutes and an hour; searches and containers by number; `response_format` is 422',
  messages_count_tokens: 'free; counted by a provider of Messages, else here',
  embeddings: 'tokens in',
  completions: 'tokens, for all prompts and tries',
  moderations: 'tokens in, by count; free in the demo',
  audio_speech: 'characters and seconds, or tokens of sound if its stream tells them',
  audio_transcriptions:
    'seconds, or tokens; measured from the file if the answer tells neither, and never less than what was written of it',
  mcp: '`per_request`, for each `tools/call`',
};

interface Row {
  asked: string;
  family: Family;
  streams: string;
}

/** The table of the families of proxy routes in docs/clients.md, read off the routes. */
export function familyTable(): string {
  const rows = [
    ...routes.filter(isPriced).map(rowOf),
    ...socket_paths.map(socketRow),
    { asked: 'POST `/mcp`, `/mcp/<name>`', family: mcp, streams: 'as its server answers' },
  ];
  const lines = rows.map(({ asked, family, streams }) => {
    const { words, governed } = factsOf(family);
    const wire = family === mcp ? 'MCP' : family.shapes.join(', ');
    // Each runs the whole pipeline, whose limits leave none out; of MCP only what is paid for does.
    const limited = family === mcp ? 'tool calls by all tiers, the rest by address' : 'all tiers';
    return `| ${asked} | ${wire} | ${governed} | ${words} | ${limited} | ${streams} |`;
  });
  const head =
    '| Route | Providers of shape | Policy packs look at | Priced by | Limited | Streamed |';
  return [head, '|---|---|---|---|---|---|', ...lines].join('\n');
}

/** What is said of a family wherever its routes stand in a table. */
export function factsOf(family: Family) {
  const words = charged[family.name];
  if (words === undefined) throw new Error(`The family ${family.name} has no words.`);
  return { words, governed: governedBy(family), streams: streamsOf(family) };
}

function governedBy(family: Family): string {
  const { policy_route, talk } = family;
  if (policy_route === 'mcp') return 'both ways, and the names of tools';
  if (policy_route === undefined || talk === undefined) return 'no';
  const ways = talk.is_silent ? 'requests' : 'both ways';
  const is_default = default_routes.some((route) => route === policy_route);
  return is_default ? ways : `${ways}, if \`policies.routes\` names \`${policy_route}\``;
}

function isPriced(route: Route): route is Route & { family: Family } {
  return route.family !== undefined;
}

function rowOf({ method, path: route, family }: Route & { family: Family }): Row {
  return { asked: `${method} \`${route}\``, family, streams: streamsOf(family) };
}

function streamsOf({ may_stream, is_binary }: Family): string {
  return may_stream ? 'if asked' : is_binary ? 'bytes, or events' : 'no';
}

function socketRow(route: string): Row {
  const family = protocolOf(route)?.family as Family;
  return { asked: `socket \`${route}\``, family, streams: 'always, a frame each' };
}

const markers = /(<!-- families: npm run families -->\n).*(\n<!-- end -->)/s;

/** The document with the table in its place. */
export function withFamilyTable(text: string): string {
  return text.replace(markers, (_, before, after) => before + familyTable() + after);
}

/** Run as a program: writes the table into its document. */
export function main(): void {
  const file = path.join(root, 'docs/clients.md');
  writeFileSync(file, withFamilyTable(readFileSync(file, 'utf8')));
}
