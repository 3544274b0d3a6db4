import type { IncomingMessage, ServerResponse } from 'node:http';
import { message_models } from './chat';
import { answeredByFault, faultsOf, figure, sendError, sendJson } from './faults';
import { count, textOf } from './words';

interface Block {
  type: string;
  text?: string;
  content?: unknown;
  cache_control?: { type: string; ttl?: '5m' | '1h' } | null;
}

export interface MessageTool {
  name: string;
  input_schema?: { properties?: Record<string, unknown> };
}

export interface MessageRequest {
  model: string;
  max_tokens: number;
  messages: { role: string; content: string | Block[] }[];
  system?: string | Block[];
  stream?: boolean;
  tools?: MessageTool[];
  tool_choice?: { type: string };
  thinking?: { type: string };
}

const MESSAGE_TOKENS = 3;

/** The tokens of a request, its system text and tools among them. */
export function promptTokens({ system, messages, tools }: MessageRequest): number {
  return messages.reduce(
    (sum, { content: said }) => sum + MESSAGE_TOKENS + count(textOf(said)),
    count(textOf(system)) + (tools?.length ? count(JSON.stringify(tools)) : 0),
  );
}

/**
 * POST /v1/messages/count_tokens. The fault `count tokens=7` answers another number, and `nothing`
 * an answer without one.
 */
export async function answerCount(given: {
  req: IncomingMessage;
  res: ServerResponse;
  body: unknown;
}): Promise<void> {
  const { req, res } = given;
  if (isRefused(req, res, given.body)) return;
  const body = given.body as MessageRequest;
  const said = textOf(body.messages.findLast(({ role }) => role === 'user')?.content);
  const faults = faultsOf(req.headers['x-sandbox-fault'] as string | undefined, said);
  if (answeredByFault(res, faults, refuseMessage)) return;
  const input_tokens = figure(faults, 'tokens', promptTokens(body));
  await sendJson(res, faults.nothing ? {} : { input_tokens }, faults);
}

/** Refuses what no request of Messages may lack; true if it did. */
export function isRefused(req: IncomingMessage, res: ServerResponse, given: unknown): boolean {
  const { 'x-api-key': key, authorization, 'anthropic-version': version } = req.headers;
  const refuseWith = (status: number, message: string): true => {
    refuseMessage(res, status, message);
    return true;
  };
  if (!key && !/^Bearer \S+/.test(authorization ?? '')) {
    return refuseWith(401, 'x-api-key header is required');
  }
  if (!version) return refuseWith(400, 'anthropic-version: header is required');
  if (given === undefined) return refuseWith(400, 'The body is not JSON.');
  const body = given as MessageRequest;
  const problem = problemOf(body);
  if (problem) return refuseWith(400, problem);
  if ((message_models as readonly string[]).includes(body.model)) return false;
  return refuseWith(404, `model: ${body.model}`);
}

function problemOf(body: MessageRequest): string | undefined {
  if (!Array.isArray(body.messages)) return 'messages: Field required';
  return 'response_format' in body ? 'response_format: Extra inputs are not permitted' : undefined;
}

const types: Record<number, string> = {
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  529: 'overloaded_error',
};

/** An error in Anthropic's shape. */
export function refuseMessage(res: ServerResponse, status: number, message: string): void {
  const type = types[status] ?? (status >= 500 ? 'api_error' : 'invalid_request_error');
  sendError(res, status, { type: 'error', error: { type, message }, request_id: 'req_sandbox' });
}
