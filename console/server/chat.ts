import { createHash, randomBytes } from 'node:crypto';
import type { Context } from 'koa';
import { AppError } from '../../domain/errors';
import type { Answer } from './api-client';
import { type Forwarding, goneOf, headersOf, readObject, requireShown } from './forward';
import type { GatewayClient } from './gateway-client';
import { type ChatKey, markOf, type Session, signedOut } from './session';

// The chat calls the gateway with a key of the person's own, which the API makes for the session
// and the cookie holds sealed: no script reads it, and it is of no use once the session has ended.

/**
 * How long a call that no wallet covers waits here, before the page asks again: proxies and
 * browsers end a request that says nothing for a minute.
 */
const HOLD_MS = 50_000;
const MESSAGES_MAX = 400;

export interface ChatPlaces extends Forwarding {
  gateway: GatewayClient | undefined;
}

/** What the API says of who is signed in. */
interface Person {
  org_id: string | null;
  permissions: readonly string[];
}

interface Question {
  model: string;
  messages: { role: string; content: string }[];
  ticket_id: string | undefined;
}

/**
 * POST /api/chat/messages `{model, messages: [{role, content}], ticket_id?}`: the answer as a
 * stream in OpenAI's shape, its cost with the last usage. What no wallet covers is 402 at once,
 * with its ticket; with `ticket_id` the same call waits for money.
 */
export async function sendMessage(ctx: Context, places: ChatPlaces): Promise<void> {
  const { model, messages, ticket_id } = questionOf(await readObject(ctx));
  const body = JSON.stringify({
    model,
    messages,
    stream: true,
    stream_options: { include_usage: true },
  });
  const signal = goneOf(ctx);
  const answer = await asked(ctx, places, (gateway, key) =>
    gateway.send({
      method: 'POST',
      path: '/v1/unified/chat/completions',
      headers: {
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        'x-svc-include-cost': 'true',
        'x-svc-hold-ms': String(ticket_id === undefined ? 0 : HOLD_MS),
        ...(ticket_id === undefined ? {} : { 'x-svc-cost-ticket': ticket_id }),
      },
      body,
      signal,
    }),
  );
  pass(ctx, answer);
  ctx.set('x-accel-buffering', 'no');
  ctx.flushHeaders();
}

/** GET /api/chat/models: the models that the person's key may call. */
export async function chatModels(ctx: Context, places: ChatPlaces): Promise<void> {
  const signal = goneOf(ctx);
  const answer = await asked(ctx, places, (gateway, key) =>
    gateway.send({
      method: 'GET',
      path: '/v1/models',
      headers: { authorization: `Bearer ${key}` },
      signal,
    }),
  );
  pass(ctx, answer);
}

/** DELETE /api/chat/key: ends the key of this session's chat; the next message makes another. */
export async function forgetChatKey(ctx: Context, places: ChatPlaces): Promise<void> {
  const session = await places.cookies.read(ctx);
  if (session === undefined) throw signedOut();
  requireShown(ctx, session);
  await endChatKey(ctx, places, session);
  places.cookies.clearChat(ctx);
  ctx.status = 204;
}

/** Ends the key of a session's chat at the API, if it has one that lives. */
async function endChatKey(ctx: Context, places: Forwarding, session: Session) {
  const chat = await places.cookies.readChat(ctx, session);
  if (chat !== undefined) await endKey(ctx, places, session, chat.name);
}

/**
 * Ends all keys of a session's chat: two tabs that opened it at once have made two, of which the
 * cookie holds one. Their names say whose they are.
 */
export async function endChatKeys(ctx: Context, places: Forwarding, session: Session) {
  // Operators do not chat.
  if (session.user_id === null) return;
  const chat = await places.cookies.readChat(ctx, session);
  const keys = await chatKeys(ctx, places, session).catch((error) => {
    // The session has ended already, or may ask for nothing any more.
    if (!(error instanceof AppError) || error.status >= 500) throw error;
    return [];
  });
  const own = keys.filter(({ name, expires_at }) => {
    const mark = chat_name.exec(name)?.[1];
    if (mark !== undefined) return mark === shortMarkOf(session);
    return expires_at !== null && Date.parse(expires_at) === session.expires_at;
  });
  const names = new Set([...own.map(({ name }) => name), ...(chat ? [chat.name] : [])]);
  for (const name of names) await endKey(ctx, places, session, name);
}

async function endKey(ctx: Context, { api, trusted }: Forwarding, { key }: Session, name: string) {
  await api
    .ask({
      method: 'DELETE',
      path: `/v1/me/keys/${encodeURIComponent(name)}`,
      headers: { ...headersOf(ctx, trusted), authorization: `Bearer ${key}` },
    })
    .catch((error) => {
      // It, or the session, has ended already.
      if (!(error instanceof AppError) || error.status >= 500) throw error;
    });
}

/** Asks with the session's key, and once more with a new one if that was revoked meanwhile. */
async function asked(
  ctx: Context,
  places: ChatPlaces,
  ask: (gateway: GatewayClient, key: string) => Promise<Answer>,
): Promise<Answer> {
  const { gateway, cookies } = places;
  if (gateway === undefined)
    throw new AppError(
      'unavailable',
      'The chat is not set up: name the gateway in CONSOLE_GATEWAY_URL.',
    );
  await places.api.requireFit();
  const session = await cookies.read(ctx);
  if (session === undefined) throw signedOut();
  requireShown(ctx, session);
  const person = await livingPerson(ctx, places, session);
  const kept = await cookies.readChat(ctx, session);
  if (kept !== undefined) {
    const answer = await ask(gateway, kept.key);
    if (answer.status !== 401) return answer;
    answer.body.resume();
  }
  await endChatKey(ctx, places, session);
  const chat = await makeKey(ctx, places, session, person);
  await cookies.writeChat(ctx, session, chat);
  return ask(gateway, chat.key);
}

/**
 * Asks the API whether the session lives, as a copy of its cookie may not, and what it may do.
 * Throws 401.
 */
async function livingPerson(ctx: Context, places: ChatPlaces, { key }: Session): Promise<Person> {
  const headers = { ...headersOf(ctx, places.trusted), authorization: `Bearer ${key}` };
  return (await places.api.ask({ method: 'GET', path: '/v1/me', headers })) as unknown as Person;
}

// The day, the session of a chat, and which of its keys it is; before 1.5 the latter alone.
const chat_name = /^chat of \d{4}-\d\d-\d\d, ([0-9a-f]{8})?[0-9a-f]{8}$/;

/** Names a session in the keys of its chat: two that were opened by one key may end together. */
function shortMarkOf(session: Session): string {
  return createHash('sha256').update(markOf(session)).digest('hex').slice(0, 8);
}

/**
 * Ends the keys of chats whose session has ended by itself, as nobody signed out of it: each takes
 * the place of a key that the person may have. A chat's key ends at the moment of its session's
 * end, by which the session is known.
 */
async function endLeftKeys(ctx: Context, places: Forwarding, session: Session): Promise<void> {
  const of_chats = await chatKeys(ctx, places, session);
  if (of_chats.length === 0) return;
  const { sessions } = await askAs(ctx, places, session, '/v1/sessions');
  const living = new Set(
    (sessions as { expires_at: string }[]).map(({ expires_at }) => Date.parse(expires_at)),
  );
  for (const { name, expires_at } of of_chats)
    if (expires_at !== null && !living.has(Date.parse(expires_at)))
      await endKey(ctx, places, session, name);
}

/** The person's living keys that chats have made. */
async function chatKeys(
  ctx: Context,
  places: Forwarding,
  session: Session,
): Promise<{ name: string; expires_at: string | null }[]> {
  const path = '/v1/me/keys?q=chat%20of&status=active&per_page=100';
  const { tokens } = await askAs(ctx, places, session, path);
  const keys = tokens as { name: string; expires_at: string | null }[];
  return keys.filter(({ name }) => chat_name.test(name));
}

function askAs(ctx: Context, { api, trusted }: Forwarding, { key }: Session, path: string) {
  const headers = { ...headersOf(ctx, trusted), authorization: `Bearer ${key}` };
  return api.ask({ method: 'GET', path, headers });
}

/**
 * Makes a key for the person: as a member may, else by the right to manage keys. Throws 403 if
 * neither allows it, and asks the API for nothing that it would refuse.
 */
async function makeKey(
  ctx: Context,
  places: ChatPlaces,
  session: Session,
  { org_id, permissions }: Person,
): Promise<ChatKey> {
  const { api, trusted } = places;
  if (session.user_id === null)
    throw new AppError('permission_denied', 'The chat is for people: sign in as one.');
  const authorization = `Bearer ${session.key}`;
  const rules = await api.ask({
    method: 'GET',
    path: `/v1/organizations/${org_id}/member-keys`,
    headers: { ...headersOf(ctx, trusted), authorization },
  });
  if (rules.enabled !== true && !permissions.includes('tokens:write'))
    throw new AppError(
      'permission_denied',
      'Your organization does not let members chat with keys of their own. Ask an admin to switch on "Members make keys for themselves" in the settings of the organization.',
    );
  await endLeftKeys(ctx, places, session);
  // A ticket is bound to the key that asked, so the session has one for as long as it lives.
  const expires_at = new Date(session.expires_at).toISOString();
  const day = new Date().toISOString().slice(0, 10);
  const name = `chat of ${day}, ${shortMarkOf(session)}${randomBytes(4).toString('hex')}`;
  const body = { name, expires_at };
  const make = (path: string, more: object = {}) =>
    api.ask({
      method: 'POST',
      path,
      headers: {
        ...headersOf(ctx, trusted),
        authorization,
        'content-type': 'application/json',
      },
      body: JSON.stringify({ ...body, ...more }),
    });
  const made =
    rules.enabled === true
      ? await make('/v1/me/keys')
      : await make('/v1/tokens', { token_type: 'gateway', user_id: session.user_id });
  return { key: String(made.key), name };
}

function questionOf({ model, messages, ticket_id, ...rest }: Record<string, unknown>): Question {
  const [unknown] = Object.keys(rest);
  if (unknown !== undefined)
    throw new AppError('unknown_field', `${unknown} is no field of a message.`, { param: unknown });
  if (typeof model !== 'string' || model === '')
    throw new AppError('invalid_field', 'Name the model that is to answer.', { param: 'model' });
  if (ticket_id !== undefined && typeof ticket_id !== 'string')
    throw new AppError('invalid_field', 'ticket_id is the id of a cost ticket.', {
      param: 'ticket_id',
    });
  if (!Array.isArray(messages) || messages.length === 0 || messages.length > MESSAGES_MAX)
    throw new AppError('invalid_field', `Send 1 to ${MESSAGES_MAX} messages.`, {
      param: 'messages',
    });
  return { model, messages: messages.map(messageOf), ticket_id };
}

function messageOf(given: unknown) {
  const { role, content } = (given ?? {}) as { role?: unknown; content?: unknown };
  if ((role !== 'user' && role !== 'assistant') || typeof content !== 'string')
    throw new AppError('invalid_field', 'A message has a role, user or assistant, and a content.', {
      param: 'messages',
    });
  return { role, content };
}

const answered = ['content-type', 'retry-after', 'x-should-retry', 'x-svc-request-id'];

function pass(ctx: Context, { status, headers, body }: Answer): void {
  // What the gateway says of its key is nothing that signs the person out.
  ctx.status = status === 401 ? 503 : status;
  for (const name of answered) {
    const value = headers[name];
    if (typeof value === 'string') ctx.set(name, value);
  }
  body.once('error', () => ctx.res.destroy());
  ctx.body = body;
}
