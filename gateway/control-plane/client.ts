import { createHmac, hkdfSync } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError, isAppError } from '../../domain/errors';
import type { GatewayEvent } from '../../domain/events';
import type * as calls from '../../domain/ledger/calls';
import type { Metadata } from '../../domain/ledger/price-lists';
import type * as pricing from '../../domain/ledger/pricing';
import type { KeyFunds } from '../../domain/ledger/views/key-funds';
import type {
  CallerBody,
  KeyOwner,
  Person,
  PersonBody,
  Verify,
} from '../../domain/people/identity';
import type { Logger } from '../../runtime/log';
import { API_VERSION } from '../../runtime/version';
import type { Wire } from '../../runtime/wire';
import type { Load } from './batch';
import { type Batches, openBatches } from './batches';
import { cached } from './cached';
import {
  type ConfigQuestion,
  type GatewayReport,
  type Heard,
  isSameToken,
  openConfigRoutes,
  type ReloadRight,
  reloadRightOf,
} from './configuration';
import { inKnownWords } from './known-words';
import { openProviderKeys, type ProviderKeys } from './provider-keys';
import { away, notTheirKey, refusedCall, toError, UncertainRefusal } from './refusals';
import { bodyOf, errorOf, isAnswered, isLost, isRefusedCall, type Reply } from './replies';
import { createSettlements, type OnSettled, type Settlements } from './settlements';
import { Spool } from './spool';

/** The hold that pays for a call, as the control plane answers it. */
export type Reservation = Wire<calls.Reservation>;

/** A row of the price list. */
export type Price = Wire<pricing.Price> & {
  /** What a catalog knows of the model; absent before 1.5. */
  metadata?: Metadata | null;
};

/** A gateway key always has an organization. */
type OrgKeyOwner = Wire<KeyOwner> & { org_id: string };

type Extension = Wire<calls.Extension>;

/** The machine routes of the control plane, as the gateway uses them. */
export interface ControlPlane {
  /** By the key itself, or by its id if another proof names it. Throws `invalid_credential`. */
  verify(key: Verify): Promise<OrgKeyOwner>;
  /**
   * Whom a subject stands for. Throws `permission_denied` if for nobody, `not_team_member` if they
   * are not in the team that is named.
   */
  person(asked: PersonBody): Promise<Wire<Person>>;
  /** What a caller may still spend. */
  funds(caller: CallerBody): Promise<Wire<KeyFunds>>;
  /** Throws the refusal; one with the code `insufficient_balance` carries the cost ticket. */
  reserve(request: calls.Reserve): Promise<Reservation>;
  /** Undefined if the answer was lost or the wait given up: ask again with the same ids. */
  redeem(request: calls.Redeem, signal: AbortSignal): Promise<Reservation | undefined>;
  /**
   * Returns at once; the settlement is repeated until it is accepted. If its usage is refused, the
   * estimate is charged in its place: an answer is never free. `heard` is told what it came to.
   */
  settle(settlement: calls.Settle, estimate?: calls.Usage, heard?: OnSettled): void;
  extend(items: calls.Extend['items']): Promise<Extension[]>;
  /** Sends events of this gateway; those that were sent before change nothing. */
  sendEvents(
    events: readonly GatewayEvent[],
    timeout_ms: number,
  ): Promise<'taken' | 'refused' | 'away'>;
  /**
   * From now on `take` is asked for events to travel with settlements, and told what became of
   * them.
   */
  carryEvents(take: () => Omit<Load, 'id'> | undefined): void;
  /** The configuration to run, if it is another than the one with the question's ETag. */
  configuration(question: ConfigQuestion): Promise<Heard>;
  /** Says what this gateway runs and does; false if the report did not arrive. */
  report(state: GatewayReport): Promise<boolean>;
  reloadRightOf(token: string): Promise<ReloadRight>;
  /** The price list, at worst that of a while ago; undefined if there never was one. */
  prices(): Promise<readonly Price[] | undefined>;
  /** Keys of providers that lie sealed there. */
  provider_keys: ProviderKeys;
  isReady(): Promise<boolean>;
  /** True for the token that this gateway itself uses. Asks nobody. */
  isOwnToken(token: string): boolean;
  /** A signature over an MCP session that every gateway with the same token makes, nobody else. */
  sign(text: string): string;
  /** The control plane's clock, in milliseconds since 1970. */
  now(): number;
  unsettled(): number;
  close(): Promise<void>;
}

const RESERVE_TIMEOUT_MS = 2_000;
// Beyond the wait that was asked for.
const REDEEM_MARGIN_MS = 5_000;
const EXTEND_TIMEOUT_MS = 5_000;
const UNSETTLED_MAX = 2_000;
const PRICES_FRESH_MS = 60_000;
const READY_FRESH_MS = 500;
// Probes give up soon; one that hangs would say nothing at all.
const READY_TIMEOUT_MS = 1_000;

interface ControlPlaneOptions {
  urls: readonly string[];
  token: string;
  /** Where settlements wait that a process did not live to send; undefined for nowhere. */
  spool_dir?: string | undefined;
}

export function openControlPlane(
  { urls, token, spool_dir }: ControlPlaneOptions,
  log: Logger,
): ControlPlane {
  const headers = { authorization: `Bearer ${token}`, 'x-svc-gateway-version': API_VERSION };
  const batches = openBatches({ urls, headers });
  const spool = spool_dir === undefined ? undefined : new Spool(spool_dir, log);
  const settlements = createSettlements(batches, log, spool);
  // A key for this use alone: what it signs tells nothing of the token.
  const session_key = new Uint8Array(hkdfSync('sha256', token, '', 'svc mcp session v1', 32));
  const configs = openConfigRoutes(batches);
  const provider_keys = openProviderKeys(batches, log);
  const ready = cached(READY_FRESH_MS, () => isReady(batches, log));
  return {
    verify: (key) => verify(batches, log, key),
    person: (asked) => person(batches, log, asked),
    funds: (caller) => funds(batches, log, caller),
    reserve: (request) => reserve({ batches, settlements, log }, request),
    redeem: (request, signal) => redeem({ batches, settlements, log }, request, signal),
    settle: settlements.send,
    extend: (items) => extend(batches, items),
    sendEvents: (events, timeout_ms) => sendEvents(batches, events, timeout_ms),
    carryEvents: (take) => batches.carryEvents(take),
    configuration: configs.ask,
    report: configs.report,
    reloadRightOf: (other) => reloadRightOf(batches, { token, other }),
    isOwnToken: (other) => isSameToken(token, other),
    prices: cached(PRICES_FRESH_MS, () => prices(batches)),
    provider_keys,
    isReady: async () => (await ready()) === true,
    sign: (text) => createHmac('sha256', session_key).update(text).digest('base64url'),
    now: () => batches.now(),
    unsettled: settlements.count,
    close: () => {
      provider_keys.close();
      settlements.close();
      return batches.close();
    },
  };
}

async function verify(batches: Batches, log: Logger, key: Verify): Promise<OrgKeyOwner> {
  const reply = await batches.request('POST', '/v1/gateway/keys/verify', key);
  if (reply?.status === 200) return bodyOf<OrgKeyOwner>(reply);
  if (reply === undefined) throw away();
  // A refused key is named as the field that is wrong; any other 401 is about this gateway's own
  // credential.
  if (isRefusedKey(reply))
    throw new AppError('invalid_credential', errorOf(reply).message ?? 'Refused.');
  if (errorOf(reply).code === 'organization_suspended') throw toError(reply);
  throw refusedCall(log, reply);
}

async function person(batches: Batches, log: Logger, asked: PersonBody): Promise<Wire<Person>> {
  const reply = await batches.request('POST', '/v1/gateway/people/verify', asked);
  if (reply?.status === 200) return bodyOf<Wire<Person>>(reply);
  if (reply === undefined) throw away();
  const { message = 'Refused.', param, code } = errorOf(reply);
  // A field is about the caller; a refusal without one is about this gateway's own credential.
  if (code === 'organization_suspended' || code === 'not_team_member') throw toError(reply);
  if (reply.status === 403 && param) throw new AppError('permission_denied', message);
  if (reply.status === 404 && !param && asked.issuer === undefined)
    return unaskedPerson(batches, log, asked);
  throw refusedCall(log, reply);
}

/**
 * A person by their own id, of an API of the version before, which has no route that says who is in
 * the organization and the team: its ledger refuses who is not.
 */
async function unaskedPerson(
  batches: Batches,
  log: Logger,
  { org_id, subject, key_id }: PersonBody,
): Promise<Wire<Person>> {
  if (key_id === undefined) return { user_id: subject, org_id, key: null };
  const key = await verify(batches, log, { org_id, key_id }).catch((error) => {
    throw isAppError(error) && error.code === 'invalid_credential' ? notTheirKey() : error;
  });
  if (key.user_id !== subject) throw notTheirKey();
  return { user_id: subject, org_id, key };
}

async function funds(batches: Batches, log: Logger, caller: CallerBody): Promise<Wire<KeyFunds>> {
  const reply = await batches.request('POST', '/v1/gateway/keys/funds', caller);
  if (reply?.status === 200) return bodyOf<Wire<KeyFunds>>(reply);
  if (reply === undefined) throw away();
  // A route that is not there names no parameter; an organization that is not there does.
  if (reply.status === 404 && (errorOf(reply).param ?? null) === null)
    throw new AppError(
      'unavailable',
      'The control plane behind this gateway is of an earlier version and cannot say this yet.',
    );
  throw refusedCall(log, reply);
}

// No key has this form, so the answer is about this gateway: is its own credential taken?
const PROBE = 'svc_gk_probe';

/** True if the control plane answers and takes this gateway's token. */
async function isReady(batches: Batches, log: Logger): Promise<boolean> {
  const asked = batches.request('POST', '/v1/gateway/keys/verify', { key: PROBE });
  const reply = await Promise.race([asked, sleep(READY_TIMEOUT_MS, undefined)]);
  if (reply === undefined || isRefusedKey(reply)) return reply !== undefined;
  refusedCall(log, reply);
  return false;
}

function isRefusedKey(reply: Reply): boolean {
  return reply.status === 401 && errorOf(reply).param === 'key';
}

/**
 * One time-out, one retry with the same request id. If any try may have reached the control plane
 * and none is known to hold, the request is canceled, so that a lost answer leaves no hold.
 */
async function reserve(
  { batches, settlements, log }: { batches: Batches; settlements: Settlements; log: Logger },
  request: calls.Reserve,
): Promise<Reservation> {
  if (settlements.count() >= UNSETTLED_MAX) throw away();
  const ask = (body: object) => batches.send('reserve', body, RESERVE_TIMEOUT_MS);
  let reply = await inKnownWords(request, ask);
  const was_lost = isLost(reply);
  if (was_lost) reply = await inKnownWords(request, ask);
  const answered = isAnswered(reply) ? reply : undefined;
  if (answered?.status === 200) return bodyOf<Reservation>(answered);
  // A call that is short of money may wait with this id; it cancels if it does not.
  if (was_lost && answered?.status === 402) throw toError(answered, UncertainRefusal);
  const { org_id, request_id } = request;
  if (was_lost || isLost(reply) || reply.status >= 500) {
    settlements.send({ org_id, request_id, outcome: 'canceled' });
  }
  if (answered === undefined) throw away();
  if (isRefusedCall(answered)) throw refusedCall(log, answered);
  throw toError(answered);
}

async function redeem(
  { batches, settlements, log }: { batches: Batches; settlements: Settlements; log: Logger },
  request: calls.Redeem,
  signal: AbortSignal,
): Promise<Reservation | undefined> {
  // A call that begins with a ticket is one more; one that waits was let in before.
  const is_first = request.is_brought === true && request.wait_ms === 0;
  if (is_first && settlements.count() >= UNSETTLED_MAX) throw away();
  const options = { timeout_ms: request.wait_ms + REDEEM_MARGIN_MS, signal };
  const path = '/v1/gateway/wallets/redeem-ticket';
  const ask = (body: object) => batches.request('POST', path, body, options);
  const reply = await inKnownWords(request, ask);
  if (reply === undefined) return undefined;
  if (reply.status === 200) return bodyOf<Reservation>(reply);
  const { param, code } = errorOf(reply);
  const is_own = reply.status === 401 ? param !== 'key_id' : code === 'permission_denied';
  if (is_own || reply.status === 426) throw refusedCall(log, reply);
  throw toError(reply, reply.after_loss ? UncertainRefusal : AppError);
}

async function extend(batches: Batches, items: calls.Extend['items']): Promise<Extension[]> {
  const reply = await batches.send('extend', { items }, EXTEND_TIMEOUT_MS);
  if (!isAnswered(reply) || reply.status !== 200) return [];
  return bodyOf<{ results: Extension[] }>(reply).results;
}

async function sendEvents(
  batches: Batches,
  items: readonly GatewayEvent[],
  timeout_ms: number,
): Promise<'taken' | 'refused' | 'away'> {
  const options = { timeout_ms: Math.max(1, timeout_ms) };
  const reply = await batches.request('POST', '/v1/gateway/events', { items }, options);
  if (reply === undefined || isRefusedCall(reply) || reply.status === 429) return 'away';
  return reply.status < 400 ? 'taken' : 'refused';
}

async function prices(batches: Batches): Promise<readonly Price[] | undefined> {
  const reply = await batches.request('GET', '/v1/model-pricing');
  return reply?.status === 200 ? bodyOf<{ models: Price[] }>(reply).models : undefined;
}
