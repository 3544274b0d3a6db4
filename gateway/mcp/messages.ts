import { AppError } from '../../domain/errors';
import { isKept } from '../../domain/texts';
import { isPlainObject, parseExact, printExact } from '../wire/exact';
import { checkEach, spellings } from '../wire/members';
import { parseText } from '../wire/parse';
import type { Body } from '../wire/values';

/** One JSON-RPC message of a client, as far as this gateway decides on it. */
export interface Message {
  /** As JSON, in its own text; undefined for notifications and answers. */
  id: string | undefined;
  method: string | undefined;
  params: Body;
}

export interface ToolCall extends Message {
  id: string;
  tool: string;
}

/** The messages of a request: one, or several in the one protocol version that has batches. */
export interface Messages {
  all: readonly Message[];
  is_batch: boolean;
}

const TOOL_CHARACTERS_MAX = 200;
const BATCH_MAX = 100;

const deciding = spellings('jsonrpc', 'id', 'method', 'params');
const deciding_params = spellings('name', 'arguments', 'uri', 'taskId');

/** Reads a body. What a server could read differently than it was read here is refused. */
export function readMessages(text: string): Messages {
  const value = parseText(text, parseExact);
  const is_batch = Array.isArray(value);
  const objects = is_batch ? (value as unknown[]) : [value];
  if (!objects.every(isPlainObject) || objects.length === 0 || objects.length > BATCH_MAX) {
    throw new AppError('invalid_request', 'The body must be a JSON-RPC message.');
  }
  checkEach(text, deciding, { key: 'params', names: deciding_params });
  const all = objects.map(messageOf);
  const ids = all.flatMap(({ id }) => (id === undefined ? [] : [id]));
  // Answers are told apart by their ids, and each call of a tool is paid for by its own.
  if (new Set(ids.map(idKey)).size < ids.length) {
    throw new AppError('invalid_request', 'Each request of a batch needs an "id" of its own.');
  }
  return { all, is_batch };
}

/**
 * Under which the answer to an id is found. Many servers read a number of many digits as the
 * nearest one that they know, and answer that.
 */
export function idKey(id: string): string {
  return JSON.stringify(JSON.parse(id));
}

/** The calls of tools among messages. Throws a refusal if one says too little. */
export function toolCalls({ all }: Messages): ToolCall[] {
  return all.filter(({ method }) => method === 'tools/call').map(toolCall);
}

function messageOf({ id, method, params }: Body): Message {
  return {
    id: id === undefined || method === undefined ? undefined : printExact(id),
    method: typeof method === 'string' ? method : undefined,
    params: isPlainObject(params) ? params : {},
  };
}

function toolCall(message: Message): ToolCall {
  const { id, params } = message;
  const { name } = params;
  // Some servers would run it, and nobody would hear of it.
  if (id === undefined || id === 'null') {
    throw new AppError('invalid_request', 'A tool is called by a request, which has an "id".');
  }
  const is_text = typeof name === 'string' && name !== '' && name.length <= TOOL_CHARACTERS_MAX;
  if (!is_text || !isKept(name)) {
    throw new AppError('invalid_field', 'Name a tool in "params.name".', { param: 'params.name' });
  }
  return { ...message, id, tool: name };
}

/**
 * True for the newest protocol, which is named by every request: it has no sessions, and a client
 * that leaves cancels.
 */
export function isModern(version: string | string[] | undefined): boolean {
  return typeof version === 'string' && /^\d{4}-\d\d-\d\d$/.test(version) && version >= MODERN;
}

const MODERN = '2026-07-28';

// The codes of JSON-RPC and of MCP's own servers, if there are any.
const rpc_codes: Record<string, number> = {
  invalid_json: -32_700,
  invalid_request: -32_600,
  invalid_field: -32_602,
  session_not_found: -32_001,
  header_mismatch: -32_020,
};
const REFUSED = -32_000;

/** A refusal as the answer to each request of a body, for clients that read nothing else. */
export function rpcErrors(
  error: AppError,
  { ids, request_id }: { ids: readonly string[]; request_id: string },
): string[] {
  const { code, status, message, details } = error;
  const { param, extra } = details;
  const data = { code, status, ...(param ? { param } : {}), ...extra, request_id };
  const told = JSON.stringify({ code: rpc_codes[code] ?? REFUSED, message, data });
  return ids.map((id) => `{"jsonrpc":"2.0","id":${id},"error":${told}}`);
}
