import { isMadeBefore, type Page, type PageRequest, pageOf } from '../pages';
import { type Db, many, maybe, one } from '../sql';
import { readAssignments, versionOfGroup } from './assignments';
import { type Change, changesBetween } from './changes';
import { DEFAULT_GROUP } from './groups';

/** A whole configuration of gateways, as one version of it. */
export interface GatewayConfig {
  version: bigint;
  /** Null if gateways run their own files. */
  config: Record<string, unknown> | null;
  /** Names it by its content, as gateways do; null for versions of before 1.5. */
  config_hash: string | null;
  /** What it changes of the version before, the first 200 places; null before 1.5. */
  changes: Change[] | null;
  change_count: number | null;
  /** True if gateways get it by rollouts only. */
  is_staged: boolean;
  note: string | null;
  created_by: string;
  created_at: Date;
}

const columns =
  'c.version, c.config, c.config_hash, c.changes, c.change_count, c.is_staged, c.note, c.created_by, c.created_at';

/**
 * The version that the gateways of a group are to run which no rollout is moving. Without one it is
 * the version that sent them back to their own files, if somebody did.
 */
export async function ofGroup(db: Db, group: string): Promise<GatewayConfig | undefined> {
  const version = versionOfGroup(await readAssignments(db), group);
  return version === null ? newestForAll(db) : find(db, version);
}

/**
 * The configurations that gateways are to run from here, newest first: of the default group, of
 * each that has gateways, and of the rollouts that go on. None if they run their own files.
 */
export async function assigned(db: Db): Promise<Record<string, unknown>[]> {
  const assignments = await readAssignments(db);
  const groups = await many<{ name: string }>(
    db,
    'select distinct g.group_name as name from gateways g where g.group_name is not null',
  );
  const names = [DEFAULT_GROUP, ...groups.map(({ name }) => name)];
  const versions = [
    ...names.map((name) => versionOfGroup(assignments, name)),
    ...Object.values(assignments.rollouts).map(({ version }) => version),
  ];
  const found = await many<{ config: Record<string, unknown> }>(
    db,
    `select c.config from gateway_configs c where c.version = any(:versions) and c.config is not null
     order by c.version desc`,
    { versions: versions.filter((version) => version !== null) },
  );
  return found.map(({ config }) => config);
}

/** The newest version for all gateways; undefined if there is none. */
function newestForAll(db: Db): Promise<GatewayConfig | undefined> {
  return maybe<GatewayConfig>(
    db,
    `select ${columns} from gateway_configs c where not c.is_staged order by c.version desc limit 1`,
  );
}

export function find(db: Db, version: number): Promise<GatewayConfig | undefined> {
  return maybe<GatewayConfig>(
    db,
    `select ${columns} from gateway_configs c where c.version = :version`,
    { version },
  );
}

export function versions(db: Db, window: PageRequest): Promise<Page<GatewayConfig>> {
  return pageOf(
    db,
    {
      select: `select ${columns}`,
      all: `from gateway_configs c where ${isMadeBefore('c.created_at')}`,
      ordered: 'order by c.version desc',
    },
    {},
    window,
  );
}

/** A version that somebody wants to make. */
export interface NewConfig {
  config: Record<string, unknown> | null;
  config_hash: string | null;
  note: string | null;
  by: string;
  is_staged?: boolean;
}

/** The version as it would be made now, without making it. */
export async function draft(
  db: Db,
  given: NewConfig,
): Promise<Pick<GatewayConfig, 'config' | 'config_hash' | 'changes' | 'change_count'>> {
  const before = await maybe<{ config: Record<string, unknown> | null }>(
    db,
    'select c.config from gateway_configs c order by c.version desc limit 1',
  );
  const { changes, count } = changesBetween(before?.config ?? {}, given.config ?? {});
  return {
    config: given.config,
    config_hash: given.config_hash,
    changes,
    change_count: count,
  };
}

/**
 * Makes a new version. Unless it is staged, all gateways are to run it at once; null sends them
 * back to their own files.
 */
export async function put(db: Db, given: NewConfig): Promise<GatewayConfig> {
  const { config, config_hash, changes, change_count } = await draft(db, given);
  return one<GatewayConfig>(
    db,
    `insert into gateway_configs as c (config, config_hash, changes, change_count, is_staged, note, created_by)
     values (:config, :config_hash, :changes, :change_count, :is_staged, :note, :by) returning ${columns}`,
    {
      config: config && JSON.stringify(config),
      config_hash,
      changes: JSON.stringify(changes),
      change_count,
      is_staged: given.is_staged ?? false,
      note: given.note,
      by: given.by,
    },
  );
}

// Any constant will do, as long as nothing else uses it.
const CONFIGS_LOCK = 7_215_066;

/**
 * Keeps other changes of configurations and rollouts out until the transaction ends: the newest
 * version stays the newest.
 */
export async function lockConfigs(trx: Db): Promise<void> {
  await many(trx, 'select pg_advisory_xact_lock(:lock)', { lock: CONFIGS_LOCK });
}
