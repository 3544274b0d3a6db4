import { AppError, isAppError } from '../../domain/errors';
import type { OpenProviderKey } from '../../domain/gateways/provider-keys';
import type { FrozenKey } from '../../domain/ledger/calls';
import type { Funded, Routed } from '../call/call';
import type { Meant, ProviderKeys } from '../control-plane/provider-keys';
import { type Candidate, type Sought, serves } from '../upstreams/target';
import { serveBy } from './choose';

// No hold says which key is there, so one that was revoked may count for so long.
const COUNT_KEPT_MS = 5_000;

/**
 * The stage that has a call served by the own keys of its organization, as its hold names them. A
 * key goes ahead of the platform's for the same model. Where it says so the platform's follows it;
 * else none is tried after it. Throws if nobody is left.
 */
export async function takeOwnKeys(call: Funded): Promise<void> {
  const { own_keys: frozen_keys = [] } = call.reservation;
  if (frozen_keys.length === 0 && call.kept_by_key == null) return;
  const ways = new Map<string, Way>();
  for (const frozen of frozen_keys) ways.set(frozen.provider, await wayOf(call, frozen));
  useOwnKeys(call, ways);
}

/**
 * The same for a count, which holds nothing, so that no hold names its keys; of those who could
 * count alone. Nobody is left if a key that has to be used cannot be: an estimate needs none.
 */
export async function findOwnKeys(call: Routed, sought: Sought): Promise<void> {
  const { gateway, identity } = call;
  const { provider_keys } = gateway.control_plane;
  const able = call.candidates.filter(({ target }) => serves(target, sought));
  try {
    const ways = new Map<string, Way>();
    for (const provider of new Set(able.map(({ target }) => target.provider))) {
      const wanted = { org_id: identity.org_id, provider };
      const found = await provider_keys.find(wanted, undefined, COUNT_KEPT_MS);
      if (found !== null) ways.set(provider, { ...found, is_only: found.own_keys === 'only' });
    }
    call.candidates = able;
    if (ways.size > 0) useOwnKeys(call, ways);
  } catch (error) {
    if (!isAppError(error)) throw error;
    call.candidates = [];
  }
}

/** How a provider is asked for an organization that has a key of it. */
interface Way {
  provider_key_id: string;
  version: number;
  /** The platform's key does not take its place. */
  is_only: boolean;
  missing?: AppError;
}

async function wayOf(call: Funded, frozen: FrozenKey): Promise<Way> {
  const { provider, provider_key_id, version, own_keys: mode } = frozen;
  const way = { provider_key_id, version, is_only: mode === 'only' };
  const wanted = { org_id: call.identity.org_id, provider };
  try {
    const found = await call.gateway.control_plane.provider_keys.find(wanted, frozen);
    if (found?.provider_key_id !== provider_key_id) return { ...way, missing: isGone(provider) };
    return { ...way, version: found.version };
  } catch (error) {
    if (!isAppError(error)) throw error;
    const { code } = error;
    call.gateway.log.warn({ provider, provider_key_id, code }, 'an own key cannot be had');
    // Where the platform's key may serve it does.
    return { ...way, missing: error };
  }
}

function useOwnKeys(call: Routed, ways: ReadonlyMap<string, Way>): void {
  let lacking: AppError | undefined;
  const list: Candidate[] = [];
  let is_only = false;
  for (const group of groupsOf(call.candidates)) {
    const own: Candidate[] = [];
    const others: Candidate[] = [];
    for (const candidate of group) {
      const way = ways.get(candidate.target.provider);
      const missing = way && (way.missing ?? unusable(candidate));
      if (way !== undefined && missing === undefined) own.push(byKey(call, candidate, way));
      if (!way?.is_only) others.push(candidate);
      lacking ??= missing;
      is_only ||= way?.is_only === true;
    }
    list.push(...own, ...(is_only ? [] : others));
  }
  const kept = keptTo(call, list);
  const [first] = kept;
  if (first === undefined) throw list.length > 0 ? keptElsewhere() : (lacking as AppError);
  call.candidates = kept;
  serveBy(call, first);
}

/** Those in whose account the things are that a request names: no other one keeps them. */
function keptTo({ kept_by_key }: Routed, list: readonly Candidate[]): readonly Candidate[] {
  if (kept_by_key === undefined) return list;
  return list.filter(({ target }) => (target.own_key_id ?? null) === kept_by_key);
}

function keptElsewhere(): AppError {
  return new AppError(
    'stored_id_unknown',
    'What this request names lies at its provider in the account of another key than serves it now.',
  );
}

/** The candidates of each model that clients know, in their order. */
function groupsOf(candidates: readonly Candidate[]): Candidate[][] {
  const groups = new Map<string, Candidate[]>();
  for (const candidate of candidates) {
    const group = groups.get(candidate.name);
    if (group === undefined) groups.set(candidate.name, [candidate]);
    else group.push(candidate);
  }
  return [...groups.values()];
}

function byKey(call: Routed, candidate: Candidate, way: Way): Candidate {
  const { gateway, snapshot, identity } = call;
  const { provider } = candidate.target;
  const keys = gateway.control_plane.provider_keys;
  const wanted = { org_id: identity.org_id, provider };
  const target = snapshot.providers.byOwnKey(candidate.target, {
    provider_key_id: way.provider_key_id,
    version: way.version,
    current: () => valueFor(keys, wanted, way),
    refuse: (value) => keys.refuse(wanted, value),
  });
  return { ...candidate, target };
}

async function valueFor(
  keys: ProviderKeys,
  wanted: { org_id: string; provider: string },
  meant: Meant,
): Promise<string> {
  const found: OpenProviderKey | null = await keys.find(wanted, meant);
  if (found?.provider_key_id !== meant.provider_key_id) throw isGone(wanted.provider);
  return found.key;
}

function isGone(provider: string): AppError {
  return new AppError(
    'provider_key_refused',
    `Your organization's own key of the provider "${provider}" was revoked after this call was held for. Repeat the request.`,
  );
}

function unusable({ target: { provider, takes_keys } }: Candidate): AppError | undefined {
  if (takes_keys) return undefined;
  return new AppError(
    'provider_key_refused',
    `This gateway sends own keys to none of its addresses of the provider "${provider}" that serve this model. Its operator may allow it (GATEWAY_SECRET_ENVS, or a target that is asked with a key); until then your organization's own key serves nothing here.`,
  );
}
