import { isMadeBefore, type Page, type PageRequest, pageOf } from './pages';
import { type Db, many, maybe, one } from './sql';

/**
 * A whole configuration of gateways. They check it themselves: only they know every key of their
 * version.
 */
export interface GatewayConfig {
  version: bigint;
  /** Null if gateways run their own files. */
  config: Record<string, unknown> | null;
  note: string | null;
  created_by: string;
  created_at: Date;
}

/** A gateway's process, as it last reported. */
interface GatewayState {
  id: string;
  host: string;
  software_version: string | null;
  /** Null if it runs its own file. */
  config_version: bigint | null;
  config_hash: string;
  refused_version: bigint | null;
  error: string | null;
  started_at: Date;
  seen_at: Date;
}

const columns = 'c.version, c.config, c.note, c.created_by, c.created_at';

/** The newest version; undefined if gateways run their own files. */
export function current(db: Db): Promise<GatewayConfig | undefined> {
  return maybe<GatewayConfig>(
    db,
    `select ${columns} from gateway_configs c order by c.version desc limit 1`,
  );
}

export function versions(db: Db, window: PageRequest): Promise<Page<GatewayConfig>> {
  return pageOf(
    db,
    `select ${columns} from gateway_configs c where ${isMadeBefore('c.created_at')} order by c.version desc`,
    {},
    window,
  );
}

/**
 * Makes a new version, which gateways take with their next poll; null sends them back to their own
 * files.
 */
export function put(
  db: Db,
  { config, note, by }: { config: Record<string, unknown> | null; note: string | null; by: string },
): Promise<GatewayConfig> {
  return one<GatewayConfig>(
    db,
    `insert into gateway_configs as c (config, note, created_by) values (:config, :note, :by) returning ${columns}`,
    { config: config && JSON.stringify(config), note, by },
  );
}

// A process that says nothing for so long has ended: they report every minute.
const SILENT_MINUTES = 5;
const KEPT_DAYS = 1;

/** The gateways that reported lately. */
export function running(db: Db): Promise<GatewayState[]> {
  return many<GatewayState>(
    db,
    `select g.id, g.host, g.software_version, g.config_version, g.config_hash, g.refused_version, g.error, g.started_at, g.seen_at
     from gateways g where g.seen_at > clock_timestamp() - make_interval(mins => :minutes) order by g.started_at, g.id`,
    { minutes: SILENT_MINUTES },
  );
}

/** Records the configuration that a gateway runs, and forgets gateways that ended long ago. */
export async function report(db: Db, given: Omit<GatewayState, 'seen_at'>): Promise<void> {
  await many(
    db,
    `insert into gateways (id, host, software_version, config_version, config_hash, refused_version, error, started_at)
     values (:id, :host, :software_version, :config_version, :config_hash, :refused_version, :error, :started_at)
     on conflict (id) do update set host = excluded.host, software_version = excluded.software_version,
       config_version = excluded.config_version, config_hash = excluded.config_hash,
       refused_version = excluded.refused_version, error = excluded.error, seen_at = clock_timestamp()`,
    { ...given },
  );
  await many(
    db,
    'delete from gateways g where g.seen_at < clock_timestamp() - make_interval(days => :days)',
    { days: KEPT_DAYS },
  );
}
