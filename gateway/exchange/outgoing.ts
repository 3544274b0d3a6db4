import type { Funded } from '../call/call';
import { filesIn } from '../families/demand';
import { renamed } from '../families/forms';
import type { ClientRequest } from '../families/request';
import type { Asked, Wire } from '../providers/kind';
import type { Candidate } from '../upstreams/target';
import { applyEdits, type Edit, memberEdit } from '../wire/edits';
import { type Body, stringOf } from '../wire/values';
import { fitted, takesAsIs } from './bodies';

/** The request for one candidate, except who asks. */
export interface Sent {
  /** Raw, with its query. */
  path: string;
  headers: Readonly<Record<string, string>>;
  body: Buffer;
}

type Sendable = Pick<Funded, 'request' | 'family' | 'ctx' | 'gateway'>;

/**
 * The request for one candidate: the body has the provider's own name of the model if the client
 * wrote another or none, asks for usage in streams whose provider gives it only if asked, and is
 * without what that provider refuses. All else stays as it is, byte by byte.
 */
export function sentTo(call: Sendable, candidate: Candidate): Sent {
  const { target, upstream } = candidate;
  const { family, request } = call;
  const { wire } = target;
  const { betas, headers, refused } = clientHeaders(call, wire);
  if (refused.length > 0) noteLeftOut(call, candidate, refused);
  const path = family.translations?.[target.shape]?.upstream_path ?? family.upstream_path;
  const given = call.ctx.req.headers['anthropic-version'];
  const version = typeof given === 'string' ? given : undefined;
  const asked = { path, model: upstream, is_stream: request.is_stream, betas, version };
  return {
    path: `${target.base_path}${withQuery(wire.path?.(asked) ?? path, target.query)}`,
    headers: {
      'content-type': request.outgoing.content_type ?? 'application/json',
      ...target.headers,
      ...headers,
      ...wire.tiers?.[stringOf(request.body.service_tier)],
    },
    body: bodyFor(call, candidate, asked),
  };
}

/** Behind a query of the path's own, that of the target goes on. */
function withQuery(path: string, query: string): string {
  return `${path}${path.includes('?') ? query.replace('?', '&') : query}`;
}

function bodyFor(call: Sendable, candidate: Candidate, asked: Asked): Buffer {
  const { wire } = candidate.target;
  const { outgoing } = call.request;
  const body = namedBody(call, candidate);
  if (outgoing.form_model !== undefined || takesAsIs(wire, body)) return body;
  const { text, left_out } = fitted(body.toString('utf8'), wire, asked);
  if (left_out.length > 0) noteLeftOut(call, candidate, left_out);
  return Buffer.from(text);
}

/** The body with the model and the options that this gateway writes into it. */
function namedBody(call: Sendable, candidate: Candidate): Buffer {
  const { request } = call;
  const { upstream, target } = candidate;
  const { body, outgoing } = request;
  const translation = call.family.translations?.[target.shape];
  if (translation !== undefined)
    return Buffer.from(translation.request(request, upstream, target.wire));
  const asks = asksUsage(call, candidate);
  const { written_cap: cap } = call.family;
  const is_uncapped = cap !== undefined && body[cap.member] == null;
  const added = Object.entries(addedMembers(call, candidate));
  const is_whole = !asks && !is_uncapped && added.length === 0;
  if (is_whole && body.model === upstream) return outgoing.bytes;
  if (outgoing.form_model !== undefined) return renamed(outgoing, upstream);
  const text = outgoing.bytes.toString('utf8');
  const edits: Edit[] = [];
  if (body.model !== upstream) {
    edits.push(memberEdit(text, outgoing.spans, 'model', JSON.stringify(upstream)));
  }
  if (is_uncapped) edits.push(memberEdit(text, outgoing.spans, cap.member, String(cap.tokens)));
  for (const [name, value] of added)
    edits.push(memberEdit(text, outgoing.spans, name, JSON.stringify(value)));
  if (asks) {
    const options = { ...(body.stream_options as Body | null), include_usage: true };
    edits.push(memberEdit(text, outgoing.spans, 'stream_options', JSON.stringify(options)));
  }
  return Buffer.from(applyEdits(text, edits));
}

/** What the provider is told of files, so that it reads them as they are priced here. */
function addedMembers({ request }: Sendable, { target }: Candidate) {
  const { with_files } = target.wire;
  return with_files === undefined || filesIn(request.body) === undefined ? {} : with_files;
}

/**
 * What goes from the client to the upstream besides the body, as far as its provider takes it; a
 * key, cookies and identity never do.
 */
function clientHeaders({ ctx, request, family }: Sendable, wire: Wire) {
  const given = ctx.req.headers;
  const headers: Record<string, string> = {};
  if (typeof given.accept === 'string' && wire.headers?.accept === undefined)
    headers.accept = given.accept;
  for (const name of wire.passes ?? []) {
    const value = given[name];
    if (typeof value === 'string') headers[name] = value;
  }
  const asked = String(given['anthropic-beta'] ?? '');
  if (wire.betas === 'all') {
    if (asked !== '') headers['anthropic-beta'] = asked;
    return { headers, betas: [], refused: [] };
  }
  // A count charges nothing, so that a family which is free is one.
  const lost = family.is_free === true ? (wire.lost_in_counts ?? []) : [];
  const known = wire.betas;
  const all = asked.split(',').flatMap((beta) => beta.trim() || []);
  const needed = wire.needs_betas?.(request.body) ?? [];
  const taken = [...all.flatMap((beta) => known?.get(beta) ?? []), ...needed];
  const betas = [...new Set(taken)].filter((beta) => !lost.includes(beta));
  const refused = all.filter((beta) => known?.has(beta) !== true);
  if (betas.length > 0 && !wire.has_betas_inside) headers['anthropic-beta'] = betas.join(',');
  return { headers, betas, refused };
}

// Of each target and own key, what the log has been told of: a member of every request is told of
// once. By the circuit, as each call by an own key has a target of its own.
const left_out = new WeakMap<object, Set<string>>();
const LEFT_OUT_MAX = 100;

function noteLeftOut({ gateway }: Sendable, { target }: Candidate, names: readonly string[]) {
  const known = left_out.get(target.breaker) ?? new Set<string>();
  left_out.set(target.breaker, known);
  const news = names.filter((name) => !known.has(name)).slice(0, LEFT_OUT_MAX - known.size);
  if (news.length === 0) return;
  for (const name of news) known.add(name);
  gateway.log.info({ target: target.id, names: news }, 'left out what this provider refuses');
}

/**
 * True if the gateway asks for usage that the client's stream would not give. Some providers refuse
 * `stream_options`.
 */
export function asksUsage(
  { request, family }: Pick<Funded, 'request' | 'family'>,
  { target }: Candidate,
): boolean {
  return (
    request.is_stream &&
    family.usage_is_asked &&
    target.wire.stream_usage !== false &&
    !isAsked(request.body)
  );
}

function isAsked({ stream_options }: ClientRequest['body']): boolean {
  return (stream_options as Body | null | undefined)?.include_usage === true;
}
