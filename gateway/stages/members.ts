import type { IncomingHttpHeaders } from 'node:http';
import { AppError } from '../../domain/errors';
import { isKept } from '../../domain/texts';
import type { Prepared, Read } from '../call/call';
import type { ClientRequest } from '../families/request';
import { applyEdits, cutMember, memberEdit } from '../wire/edits';
import { parseExact, printExact } from '../wire/exact';
import { checkKeys } from '../wire/members';
import { withoutNamed } from '../wire/named';
import { type Body, headerText, isObject } from '../wire/values';
import { asksCost } from './cost';
import { talkOf } from './policies';
import { tagsIn } from './tags';

const SESSION_HEADER = 'x-session-id';
// How coding agents name their conversation: Claude Code, Codex, Codex before 0.149.
const agent_headers = ['x-claude-code-session-id', 'session-id', 'session_id'] as const;
const SESSION_LENGTH_MAX = 200;

/**
 * The stage that reads the members that the specification adds to the providers' wires, and takes
 * them out of the body, as providers would refuse them: a session's name, prompt caching that
 * policy forbids, structured output in the one form.
 */
export function takeMembers(call: Read): Prepared {
  const { ctx, request } = call;
  const header = ctx.req.headers[SESSION_HEADER];
  const named = sessionId(typeof header === 'string' ? headerText(header) : header, SESSION_HEADER);
  const prepared = Object.assign(call, {
    session_id: named ?? agentSession(ctx.req.headers),
    tags: tagsIn(ctx),
    asks_cost: asksCost(call),
  });
  if (call.family.takes_members !== true && talkOf(call) === undefined) return prepared;
  const { body } = request;
  if (body.session_id !== undefined) {
    const session_id = sessionId(body.session_id ?? undefined, 'session_id') ?? named;
    if (named !== undefined && named !== session_id) throw mismatch();
    prepared.session_id = session_id ?? prepared.session_id;
    remove(request, 'session_id');
  }
  takeCaching(call);
  return prepared;
}

/** Prompt caching that policy forbids, and structured output asked for in the one form. */
function takeCaching({ family, snapshot, request }: Read): void {
  const { body } = request;
  if (!snapshot.policies.allows_cache_control) strip(request);
  if (family.takes_members !== true || body.response_format == null) return;
  const format = formatOf(body.response_format);
  if (family.format_in_text) moveFormat(request, format);
}

/** The session as an agent names it, where nobody names one by our own header or member. */
function agentSession(headers: IncomingHttpHeaders): string | undefined {
  for (const name of agent_headers) {
    const header = headers[name];
    const text = typeof header === 'string' ? headerText(header) : undefined;
    // It is no part of our API: what cannot be kept names no session.
    if (isSession(text)) return text;
  }
  return undefined;
}

function isSession(value: unknown): value is string {
  const is_text = typeof value === 'string' && value !== '' && value.length <= SESSION_LENGTH_MAX;
  return is_text && isKept(value);
}

function sessionId(value: unknown, param: string): string | undefined {
  if (value === undefined) return undefined;
  if (isSession(value)) return value;
  throw wrong(
    param,
    `"${param}" must be a text of 1 to ${SESSION_LENGTH_MAX} characters, without U+0000 and half pairs.`,
  );
}

function mismatch(): AppError {
  return new AppError(
    'session_id_mismatch',
    `"session_id" and ${SESSION_HEADER} name different sessions: send one of them, or the same in both.`,
    { param: 'session_id' },
  );
}

/** Takes a member out of the body; all other bytes stay. */
function remove(request: ClientRequest, name: string): void {
  delete request.body[name];
  const { bytes, spans } = request.outgoing;
  if (!spans.has(name)) return;
  const left = cutMember({ text: bytes.toString('utf8'), spans }, name);
  request.outgoing = { bytes: Buffer.from(left.text), spans: left.spans };
}

/** Takes prompt caching out of the body, wherever it is asked for. */
function strip(request: ClientRequest): void {
  const { text, found } = withoutNamed(request.outgoing.bytes.toString('utf8'), ['cache_control']);
  if (found.length === 0) return;
  request.body = JSON.parse(text) as Body;
  rewrite(request, text);
}

function rewrite(request: ClientRequest, text: string): void {
  request.outgoing = { bytes: Buffer.from(text), spans: checkKeys(text) };
}

interface Format {
  type: 'text' | 'json_object' | 'json_schema';
  json_schema?: Body;
}

function formatOf(value: unknown): Format {
  const { type, json_schema: given } = isObject(value) ? value : {};
  if (type === 'text' || type === 'json_object') return { type };
  if (type !== 'json_schema') {
    throw wrong('response_format.type', 'It must be "json_object" or "json_schema".');
  }
  const at = 'response_format.json_schema';
  if (!isObject(given)) throw wrong(at, 'It must be an object with "name", "strict" and "schema".');
  if (typeof given.name !== 'string' || given.name === '') throw wrong(`${at}.name`, 'Name it.');
  if (given.strict != null && typeof given.strict !== 'boolean') {
    throw wrong(`${at}.strict`, 'It must be true or false.');
  }
  if (given.schema !== undefined && !isObject(given.schema)) {
    throw wrong(`${at}.schema`, 'It must be an object, a JSON Schema.');
  }
  return { type, json_schema: given };
}

/** What of a checked body is moved. */
interface ExactBody {
  text?: Body | null;
  response_format: { json_schema?: Body };
}

/** Responses take the format in `text`, flat. */
function moveFormat(request: ClientRequest, { type, json_schema }: Format): void {
  const { text = null } = request.body;
  if (text !== null && !isObject(text)) throw wrong('text', '"text" must be an object.');
  if (text?.format != null) {
    throw wrong('response_format', 'Give either "response_format" or "text.format", not both.');
  }
  const given = parseExact(request.outgoing.bytes.toString('utf8')) as ExactBody;
  remove(request, 'response_format');
  if (request.body.text !== undefined) remove(request, 'text');
  request.body.text = { ...text, format: { type, ...json_schema } };
  // In the client's own words: a schema may hold numbers that no double does.
  const moved = { ...given.text, format: { type, ...given.response_format.json_schema } };
  const { bytes, spans } = request.outgoing;
  const left = bytes.toString('utf8');
  const edit = memberEdit(left, spans, 'text', printExact(moved));
  rewrite(request, applyEdits(left, [edit]));
}

function wrong(param: string, message: string): AppError {
  return new AppError('invalid_field', message, { param });
}
