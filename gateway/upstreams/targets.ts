import { setTimeout as sleep } from 'node:timers/promises';
import type { PricedModel } from '../../domain/ledger/calls';
import { mayUse } from '../../domain/people/identity';
import type { Logger } from '../../runtime/log';
import type { Settings } from '../config/settings';
import type { TargetSettings } from '../config/targets';
import type { Shape } from '../providers/kind';
import { Credentials, type SealedKeys } from './credentials/credential';
import { Discovery } from './discovery';
import { type Listed, listedModels } from './listing';
import { type OwnKey, OwnTargets } from './own-targets';
import {
  type Candidate,
  type OwnKeyRule,
  openTarget,
  type Sought,
  serves,
  type Target,
} from './target';

/** Every way to serve what a client calls by one name. */
export interface Route {
  /** By model, in the order in which models are tried; within a model targets share by weight. */
  tiers: readonly (readonly Candidate[])[];
  /**
   * What each way may cost, in the file's order: the first names the reservation, the others are
   * frozen with it.
   */
  prices: readonly PricedModel[];
}

export interface Providers {
  /** Those that live, for the configuration after this one. */
  credentials: Credentials;
  /**
   * How a model, or a group of them, is served to a family's caller who may use `allowed`;
   * undefined if it is not.
   */
  route(name: string, family: Sought, allowed: readonly string[] | null): Route | undefined;
  /** The order in which this request tries them: by weight, with open circuits last. */
  order(route: Route): readonly Candidate[];
  /** True for what a client may name in that family, allowed or not. */
  knows(name: string, family: Sought): boolean;
  /** Every model and group that some path reaches, with its provider, in the file's order. */
  models(shapes: ReadonlySet<Shape>, allowed: readonly string[] | null): Listed[];
  /**
   * Asks the targets that discover their models what these are, and goes on to ask. `before` knows
   * what the configuration before this one had found. Waits a moment for those who answer at once.
   */
  discover(log: Logger, before?: Providers): Promise<void>;
  /** The names that the server of a target at this place has listed. */
  found(id: string, url: string): readonly string[];
  /** The target as an organization's own key asks it: with connections and a circuit of its own. */
  byOwnKey(target: Target, key: OwnKey): Target;
  close(): Promise<void>;
}

// How long a configuration waits for the lists of models.
const DISCOVER_MS = 2_000;
// What the control plane freezes in one reserve, the first price included.
const PRICES_MAX = 17;

interface Given {
  sealed: SealedKeys;
  /** Its tokens live on. */
  before?: Pick<Providers, 'credentials'> | undefined;
  /** Absent: every target that is opened by a key, as those of the gateway's own file are. */
  takesOwnKeys?: OwnKeyRule | undefined;
  /** Gives [0, 1). */
  random?: () => number;
}

/** The upstream table. */
export function openProviders(
  settings: Settings,
  { sealed, before, takesOwnKeys = () => true, random = Math.random }: Given,
): Providers {
  const rows = settings.providers.targets;
  const credentials = new Credentials(sealed, before?.credentials);
  const targets = rows.map((row) => openTarget(row, settings, { credentials, takesOwnKeys }));
  const own_targets = new OwnTargets(settings);
  const groups = new Map(settings.model_groups.map(({ name, models }) => [name, models]));
  const fallbacks = new Map(Object.entries(settings.providers.fallback.models));
  const routeOf = (name: string, family: Sought, allowed: readonly string[] | null) => {
    const first = groups.get(name) ?? [name];
    const names = new Set([...first, ...(fallbacks.get(name) ?? [])]);
    const tiers = [...names]
      .filter((model) => mayUse(allowed, model))
      .map((model) => serving(targets, model, family));
    return newRoute(tiers.filter(({ length }) => length > 0));
  };
  // Keys without a list of models share their routes.
  const open_routes = new Map<string, Route | undefined>();
  const openRoute = (name: string, family: Sought): Route | undefined => {
    const key = `${family.name} ${name}`;
    const known = open_routes.get(key);
    if (known !== undefined) return known;
    const route = routeOf(name, family, null);
    if (route !== undefined) open_routes.set(key, route);
    return route;
  };
  // What was no route may be one now.
  const discoveries = openDiscoveries(rows, targets, {
    changed: () => open_routes.clear(),
    isGroup: (name) => groups.has(name),
  });
  return {
    credentials,
    discover: discoveries.begin,
    found: discoveries.found,
    route(name, family, allowed) {
      if (allowed === null) return openRoute(name, family);
      // A fallback never serves a key that may not use what it asked for.
      if (!groups.has(name) && !mayUse(allowed, name)) return undefined;
      return routeOf(name, family, allowed);
    },
    order: (route) => ordered(route, random),
    knows: (name, family) => openRoute(name, family) !== undefined,
    models: (shapes, allowed) => listedModels(targets, groups, shapes, allowed),
    byOwnKey: (target, key) => own_targets.open(target, key),
    async close() {
      discoveries.close();
      await Promise.all([own_targets.close(), ...targets.map(({ pool }) => pool.destroy())]);
    },
  };
}

function openDiscoveries(
  rows: readonly TargetSettings[],
  targets: readonly Target[],
  { changed, isGroup }: { changed: () => void; isGroup: (name: string) => boolean },
) {
  const isServedBesides = ({ provider }: Target, name: string) =>
    targets.some(
      (other) => other.provider !== provider && other.models.some((one) => one.name === name),
    );
  const isTakenFor = (target: Target) => (name: string) =>
    isGroup(name) || isServedBesides(target, name);
  const opened = targets.flatMap((target, at) => {
    const row = rows[at] as TargetSettings;
    return row.discover === undefined
      ? []
      : [{ target, list: new Discovery(target, row, { changed, isTaken: isTakenFor(target) }) }];
  });
  return {
    async begin(log: Logger, before?: Providers): Promise<void> {
      const begun = opened.map(({ target: { id, url }, list }) => {
        if (before !== undefined) list.take(before.found(id, url));
        return list.begin(log);
      });
      if (begun.length === 0) return;
      await Promise.race([Promise.all(begun), sleep(DISCOVER_MS, undefined, { ref: false })]);
    },
    found: (id: string, url: string): readonly string[] =>
      opened.find(({ list }) => list.isOf(id, url))?.list.found() ?? [],
    close(): void {
      for (const { list } of opened) list.close();
    },
  };
}

function serving(targets: readonly Target[], name: string, family: Sought): Candidate[] {
  return targets
    .filter((target) => serves(target, family))
    .flatMap((target) =>
      target.models
        .filter((one) => one.name === name)
        .map(({ priced, upstream }) => ({ target, name, model: priced, upstream })),
    );
}

function newRoute(tiers: Candidate[][]): Route | undefined {
  if (tiers.length === 0) return undefined;
  const ways = tiers.flat().map(({ target: { provider }, model }) => ({ provider, model }));
  const distinct = new Map(ways.map((way) => [`${way.provider} ${way.model}`, way]));
  return { tiers, prices: [...distinct.values()].slice(0, PRICES_MAX) };
}

function ordered({ tiers, prices }: Route, random: () => number): readonly Candidate[] {
  const [first] = tiers;
  if (tiers.length === 1 && first?.length === 1) return first;
  const all = tiers.flatMap((tier) => shuffled(tier, random));
  const frozen = all.filter(({ target: { provider }, model }) =>
    prices.some((price) => price.provider === provider && price.model === model),
  );
  const isOpen = ({ target }: Candidate) => target.breaker.opensIn() > 0;
  return [...frozen.filter((one) => !isOpen(one)), ...frozen.filter(isOpen)];
}

/** Each target's chance to be next is its share of the weight that is left. */
function shuffled(tier: readonly Candidate[], random: () => number): Candidate[] {
  const left = [...tier];
  const result: Candidate[] = [];
  while (left.length > 0) {
    let at = random() * left.reduce((sum, { target }) => sum + target.weight, 0);
    let index = left.findIndex(({ target }) => {
      at -= target.weight;
      return at < 0;
    });
    if (index < 0) index = left.length - 1;
    result.push(...left.splice(index, 1));
  }
  return result;
}
