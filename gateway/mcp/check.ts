import type { IncomingHttpHeaders } from 'node:http';
import type { Identified } from '../call/call';
import type { Kind } from '../config/policies';
import { checkText, type Dlp } from '../policy/dlp';
import { blocked } from '../stages/policies';
import { decodedValue, encodedValue } from './headers';
import type { Messages } from './messages';
import { addressed, filterWords, wordsIn } from './words';

/** The request that goes to a server. */
interface ToServer {
  body: Buffer | null;
  /** Of the client's headers those that policies changed. */
  headers: Record<string, string>;
}

/** A request to a server, before policies and after them. */
export interface Asking {
  ctx: { req: { headers: IncomingHttpHeaders } };
  messages: Messages;
  outgoing: ToServer;
  /** Looked at once, however many calls of tools it carries. */
  filtered?: Promise<{ rule: string | undefined }>;
}

/**
 * Runs the chain over a request: its caller, each tool, and its texts, except for the protocol's
 * own members.
 */
export async function checkAsking(call: Identified, asking: Asking, tool?: string): Promise<void> {
  for (const kind of call.snapshot.policies.chain) {
    const rule = await checks[kind](call, asking, tool);
    if (rule !== undefined) throw blocked(call, { policy: kind, rule }, 'input');
  }
}

type Check = (
  call: Identified,
  asking: Asking,
  tool: string | undefined,
) => string | undefined | Promise<string | undefined>;

const checks: Record<Kind, Check> = {
  rbac: ({ snapshot }, { ctx }) => snapshot.policies.rbac?.broken(ctx.req.headers),
  'agent-firewall': ({ snapshot }, _, tool) =>
    tool === undefined ? undefined : snapshot.policies.firewall?.forbids(tool),
  'dlp-filter': async ({ snapshot }, asking) => {
    const { dlp } = snapshot.policies;
    if (!dlp?.stages.includes('input')) return undefined;
    asking.filtered ??= filter(dlp, asking);
    return (await asking.filtered).rule;
  },
};

async function filter(dlp: Dlp, asking: Asking): Promise<{ rule: string | undefined }> {
  const { messages, outgoing, ctx } = asking;
  if (outgoing.body === null) return { rule: undefined };
  const rule = addresseeRule(dlp, messages);
  if (rule !== undefined) return { rule };
  const text = outgoing.body.toString('utf8');
  const names = Object.keys(ctx.req.headers).filter((name) => name.startsWith('mcp-param-'));
  const values = names.map((name) => textOf(ctx.req.headers[name]));
  const given = { text, words: wordsIn(text, { unread: openings(messages) }), values };
  const found = await filterWords(dlp, given);
  if (found.rule !== undefined) return { rule: found.rule };
  if (found.text !== text) asking.outgoing.body = Buffer.from(found.text);
  for (const [at, name] of names.entries()) {
    const value = found.values[at] as string;
    if (value !== values[at]) asking.outgoing.headers[name] = encodedValue(value);
  }
  return { rule: undefined };
}

/**
 * The rule that the name of a tool, a prompt or a resource breaks; what is left of a name would be
 * another one.
 */
function addresseeRule(dlp: Dlp, { all }: Messages): string | undefined {
  for (const { params } of all) {
    for (const member of addressed) {
      const value = params[member];
      if (typeof value !== 'string') continue;
      const { rule } = checkText({ ...dlp, redacts: false }, value);
      if (rule !== undefined) return rule;
    }
  }
  return undefined;
}

/** Where clients and servers of the older protocol introduce themselves. */
function openings({ all }: Messages): Set<number> {
  return new Set(all.flatMap(({ method }, at) => (method === 'initialize' ? [at] : [])));
}

function textOf(header: string | string[] | undefined): string {
  const value = String(header);
  return decodedValue(value) ?? value;
}
