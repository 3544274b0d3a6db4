import type { Context } from 'koa';
import { AppError, errorHeaders } from '../../domain/errors';
import { mayUse } from '../../domain/people/identity';
import { toRefusal } from '../../runtime/conventions';
import { addToLine } from '../../runtime/request-log';
import type { Addressed, Funded, Gateway, Identified, Prepared, Read, Routed } from '../call/call';
import { runCall } from '../call/run';
import { enter, leave, type Snapshot } from '../call/snapshot';
import { inCallSpan } from '../call/spans';
import { mcp } from '../families/mcp';
import type { ClientRequest } from '../families/request';
import { pipelineOf } from '../pipeline';
import { confirmKey } from '../stages/identify';
import { countUnpriced, emitUnpriced, limitByAddress } from '../stages/limit';
import { checkOrigin } from '../stages/origins';
import { arrivalOf } from '../stages/read';
import type { Upstream } from '../upstreams/target';
import { printExact } from '../wire/exact';
import { type Arrival, readBody } from '../wire/read';
import { createBarrier } from './barrier';
import { type Asking, checkAsking } from './check';
import { McpExchange, type Sent } from './exchange';
import { checkHeaders } from './headers';
import { listen } from './listeners';
import { listHider } from './lists';
import {
  idKey,
  isModern,
  type Messages,
  readMessages,
  rpcErrors,
  type ToolCall,
  toolCalls,
} from './messages';
import { sealSession, unsealSession } from './sessions';

/** One HTTP request of an MCP client. */
interface Asked extends Asking {
  ctx: Context;
  snapshot: Snapshot;
  server: Upstream;
  raw: Buffer | null;
  is_modern: boolean;
}

const none: Messages = { all: [], is_batch: false };
// The notices of a server, which may never come.
const LISTEN = 'subscriptions/listen';

/**
 * `/mcp` and `/mcp/<name>`: the protocol passes as it is, in all its versions; each call of a tool
 * is paid for. Refusals have their HTTP status and are JSON-RPC errors, as some clients read the
 * one and some the other.
 */
export async function serveMcp(ctx: Context, gateway: Gateway, name: string): Promise<void> {
  const seen: Seen = { messages: none };
  const { snapshot } = gateway;
  // From its first byte on: the server it is for goes with the configuration.
  enter(snapshot);
  try {
    await serve(ctx, gateway, snapshot, { name, seen });
  } catch (error) {
    refuse(ctx, gateway, seen.messages, error);
  } finally {
    leave(snapshot);
  }
}

/** What a refusal needs to know. */
interface Seen {
  messages: Messages;
}

async function serve(
  ctx: Context,
  gateway: Gateway,
  snapshot: Snapshot,
  { name, seen }: { name: string; seen: Seen },
): Promise<void> {
  const { headers } = ctx.req;
  const address = countUnpriced(ctx, gateway);
  // If no tool is called, nothing else tells of it.
  ctx.res.once('close', () => emitUnpriced(ctx, gateway, address));
  checkOrigin(headers, snapshot.settings.mcp);
  // Before a body is read; whether the key is still valid, the calls ask.
  const identity = await snapshot.identifier.who(ctx.req);
  const arrival = () => arrivalOf({ gateway, snapshot, identity });
  const asked = await readAsked(ctx, snapshot, { name, seen, arrival }).catch(
    async (error: unknown) => {
      await confirmKey({ ctx, snapshot });
      throw error;
    },
  );
  const tool_calls = toolCalls(asked.messages);
  if (tool_calls.length > 0) {
    await callTools(gateway, asked, { tool_calls, address });
  } else
    await runCall({ ctx, gateway, family: mcp, snapshot }, (call) =>
      askFree(Object.assign(call, { address }), asked),
    );
}

async function readAsked(
  ctx: Context,
  snapshot: Snapshot,
  { name, seen, arrival }: { name: string; seen: Seen; arrival: () => Arrival },
): Promise<Asked> {
  const server = snapshot.mcp.find(name);
  if (server === undefined) throw new AppError('not_found', 'There is no such MCP server here.');
  let raw: Buffer | null = null;
  if (ctx.method === 'POST') {
    raw = await readBody(ctx.req, snapshot.settings.body_limit_bytes, arrival());
    seen.messages = readMessages(raw.toString('utf8'));
    checkHeaders(ctx.req.headers, seen.messages);
  }
  const is_modern = isModern(ctx.req.headers['mcp-protocol-version']);
  const outgoing = { body: raw, headers: {} };
  return { ctx, snapshot, server, raw, messages: seen.messages, is_modern, outgoing };
}

/** What is asked without a tool is free, and only for those whose key is valid now. */
async function askFree(addressed: Addressed, asked: Asked): Promise<void> {
  const { ctx, messages } = asked;
  const identity = await addressed.snapshot.identifier.confirm(ctx.req);
  const call = Object.assign(addressed, { identity });
  await checkAsking(call, asked);
  if (ctx.method === 'GET' || messages.all.some(({ method }) => method === LISTEN)) listen(call);
  await send(asked, call, new Map());
}

/**
 * Each tool call of a request is a call of its own; they meet once all are paid for, and travel
 * together.
 */
async function callTools(
  gateway: Gateway,
  asked: Asked,
  { tool_calls, address }: { tool_calls: readonly ToolCall[]; address: Addressed['address'] },
): Promise<void> {
  const { ctx, snapshot } = asked;
  const under_way: Read[] = [];
  const barrier = createBarrier<Funded>(tool_calls.length, (calls) => {
    const paid = new Map(tool_calls.map(({ id }, at) => [idKey(id), calls[at] as Funded]));
    return send(asked, calls[0] as Funded, paid);
  });
  const runs = tool_calls.map((tool_call, at) => {
    const pipeline = pipelineOf({
      // The request was counted once: its first call takes that over, the others count themselves.
      countAddress: (call) => (at === 0 ? Object.assign(call, { address }) : limitByAddress(call)),
      read: (call) => {
        const read = readTool(call, asked, tool_call);
        under_way.push(read);
        return read;
      },
      choose: (call) => chooseTool(call, asked),
      check: (call) => checkAsking(call, asked, tool_call.tool),
      send: (call) => barrier.arrive(at, call),
    });
    const beginning = { ctx, gateway, family: mcp, snapshot };
    // One that ends without having arrived has lost its client, as all of them have.
    return runCall(beginning, pipeline).then(barrier.leave, (error: unknown) => {
      barrier.fail(error);
      // None of them is served any more, so none waits for money.
      for (const call of under_way) gateway.held_calls.end(call);
      throw error;
    });
  });
  const ended = await Promise.allSettled(runs);
  const failed = ended.find(({ status }) => status === 'rejected');
  if (failed !== undefined) throw barrier.failure();
}

/**
 * The stage that says what is asked: the tool and its arguments, whatever else the message holds.
 */
function readTool(call: Identified, { server, raw }: Asked, { tool, params }: ToolCall): Read {
  const request: ClientRequest = {
    // A repeat has another id, and is the same call.
    raw: Buffer.from(printExact([server.id, tool, params.arguments ?? null])),
    body: params,
    is_stream: false,
    model: `${server.id}/${tool}`,
    max_completion_tokens: 0,
    outgoing: { bytes: raw as Buffer, spans: new Map() },
  };
  return Object.assign(call, { request });
}

/**
 * The stage that refuses a tool that the key may not use: a key's list of models names tools as
 * `<server>/<tool>`, or a beginning of that with a star behind: `<server>/*`.
 */
function chooseTool(call: Prepared, { server }: Asked): Routed {
  const { model } = call.request;
  const { allowed_models } = call.identity;
  if (!mayUse(allowed_models, model)) {
    throw new AppError('model_not_allowed', `This key may not use the tool "${model}".`, {
      param: 'params.name',
    });
  }
  const prices = [{ provider: server.provider, model }];
  return Object.assign(call, { candidates: [], prices, target: server, model });
}

async function send(
  { ctx, server, messages, is_modern, outgoing }: Asked,
  call: Identified,
  paid: Sent['paid'],
): Promise<void> {
  const owner = {
    identity: call.identity,
    server: server.id,
    control_plane: call.gateway.control_plane,
  };
  const { body } = outgoing;
  const headers = Object.assign(headersUp(ctx, server), outgoing.headers);
  const session = headers['mcp-session-id'];
  // The newest protocol has none, and servers are to ignore one.
  if (is_modern) delete headers['mcp-session-id'];
  else if (session !== undefined) headers['mcp-session-id'] = unsealSession(session, owner);
  if (call.client_is_gone) return;
  for (const asked of paid.values()) asked.attempts += 1;
  const method = ctx.method as Sent['method'];
  const exchange = new McpExchange(call, {
    method,
    hides: listHider(call, server.id, messages),
    headers,
    body,
    ids: messages.all.flatMap(({ id }) => id ?? []),
    paid,
    goes_on: method === 'POST' && !is_modern,
    sealSession: (id) => sealSession(id, owner),
  });
  server.pool.dispatch(
    { method, path: server.base_path, headers, body, headersTimeout: server.first_byte_ms },
    exchange,
  );
  await inCallSpan(call, 'upstream', { target: server.id }, () => exchange.done);
}

const passed_headers = ['accept', 'content-type', 'last-event-id'];

/** The protocol's own headers. The client's key, cookies and identity never go to a server. */
function headersUp(ctx: Context, server: Upstream): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(ctx.req.headers)) {
    if (typeof value !== 'string') continue;
    if (name.startsWith('mcp-') || passed_headers.includes(name)) headers[name] = value;
  }
  return Object.assign(headers, server.headers);
}

function refuse(ctx: Context, { log }: Gateway, messages: Messages, error: unknown): void {
  const known = toRefusal(ctx, error, log);
  addToLine(ctx, { code: known.code });
  if (ctx.res.headersSent) {
    ctx.res.destroy();
    return;
  }
  const { all, is_batch } = messages;
  const ids = all.flatMap(({ id }) => id ?? []);
  const request_id = ctx.state.request_id as string;
  const errors = rpcErrors(known, { ids: ids.length > 0 ? ids : ['null'], request_id });
  ctx.status = known.status;
  ctx.set(errorHeaders(known));
  ctx.type = 'json';
  ctx.body = is_batch ? `[${errors.join(',')}]` : errors[0];
}
