import { setTimeout as sleep } from 'node:timers/promises';
import { AppError } from '../domain/errors';
import { ConfigError } from '../runtime/config';
import type { Logger } from '../runtime/log';
import { adopt } from './adopt';
import type { Gateway } from './call/call';
import { openSnapshot } from './call/snapshot';
import { closedToOwnKeys, ownKeyReach, type Reach } from './config/reach';
import { loadSettings, parseGiven, type Settings } from './config/settings';
import type { ControlPlane } from './control-plane/client';
import {
  type ConfigAnswer,
  type ConfigQuestion,
  type Heard,
  NO_CONFIG_ETAG,
} from './control-plane/configuration';
import { type Identified, Reports } from './reports';

/** Reads the gateway's configuration, and changes it while calls are under way. */
export interface Configuration {
  /**
   * Reads file and control plane again. A bad configuration changes nothing: 422
   * `invalid_configuration` says what is wrong.
   */
  reload(): Promise<Reloaded>;
  /** Tells the control plane at once how this gateway stands. */
  report(): void;
  /** Ends the questions, and says that this gateway stops. */
  close(): Promise<void>;
}

interface Reloaded {
  config_hash: string;
  previous_config_hash: string;
  /** The version of the control plane; null while the file runs. */
  config_version: number | null;
  source: 'file' | 'control_plane';
}

/** Between questions to a control plane that is away, or lets no question wait. */
const POLL_MS = 5_000;
/** Less than what balancers end as silent. */
const WAIT_MS = 25_000;
/** Before the next question, if one that might have waited was answered at once without news. */
const REST_MS = 500;
const ERROR_MAX_CHARACTERS = 2_000;
const own_keys_closed =
  'own keys of organizations do not go to these targets: list the entries in GATEWAY_SECRET_ENVS if they may';

/** What the control plane has, and what was last said to it. */
interface Polled {
  etag: string | undefined;
  version: number | null;
  refused_version: number | null;
  error: string | null;
}

const nothing_polled: Polled = {
  etag: undefined,
  version: null,
  refused_version: null,
  error: null,
};

interface Options {
  file: string;
  group?: string;
  reach?: Reach;
  poll_ms?: number;
  wait_ms?: number;
}

/**
 * The configuration of a gateway: its file, until the control plane has one, which is then asked
 * for all the time.
 */
export function openConfiguration(gateway: Gateway, options: Options): Configuration {
  const configured = new Configured(gateway, options);
  void configured.pollOn();
  return configured;
}

class Configured implements Configuration {
  private readonly gateway: Gateway;
  private readonly named: Identified;
  private readonly reach: Reach;
  private readonly poll_ms: number;
  private readonly wait_ms: number;
  private readonly own: ReturnType<typeof openFile>;
  private readonly polled: Polled = { ...nothing_polled };
  private readonly over = new AbortController();
  private readonly inTurn = oneByOne();
  private readonly reports: Reports;
  /** Counts the reloads: what was asked before one is no news after it. */
  private reloads = 0;

  constructor(gateway: Gateway, { file, group = 'default', reach, poll_ms, wait_ms }: Options) {
    this.gateway = gateway;
    this.named = { id: crypto.randomUUID(), group };
    this.reach = reach ?? { origins: [], variables: [] };
    this.poll_ms = poll_ms ?? POLL_MS;
    this.wait_ms = wait_ms ?? WAIT_MS;
    this.own = openFile(file);
    this.reports = new Reports(gateway, this.named, () => this.polled);
  }

  async reload(): Promise<Reloaded> {
    const { gateway, polled } = this;
    const previous_config_hash = gateway.snapshot.version;
    await this.inTurn(() => this.readAgain());
    this.report();
    const config_hash = gateway.snapshot.version;
    gateway.log.info({ config_hash, config_version: polled.version }, 'reloaded');
    return {
      config_hash,
      previous_config_hash,
      config_version: polled.version,
      source: polled.version === null ? 'file' : 'control_plane',
    };
  }

  report(): void {
    this.reports.tellChange();
  }

  close(): Promise<void> {
    this.over.abort();
    return this.reports.close();
  }

  /** Asks for as long as the process runs. */
  async pollOn(): Promise<void> {
    const { signal } = this.over;
    while (!signal.aborted) {
      const pause_ms = await this.poll().catch((error) => {
        this.gateway.log.error({ err: error }, 'the configuration poll failed');
        return jittered(this.poll_ms);
      });
      if (pause_ms > 0)
        await sleep(pause_ms, undefined, { signal, ref: false }).catch(() => undefined);
    }
  }

  /** Asks once, and answers how long to wait before the next question. */
  private async poll(): Promise<number> {
    const { over, polled, wait_ms, reloads } = this;
    const asked_at = performance.now();
    const question = { etag: polled.etag, wait_ms, signal: over.signal };
    const { answer, can_wait, report_ms } = await this.ask(question);
    if (over.signal.aborted) return 0;
    await this.inTurn(async () => {
      if (reloads === this.reloads) await this.take(answer);
    });
    // One that is away said nothing of how often it wants reports: that of before holds.
    if (answer !== 'away') this.reports.every(report_ms);
    this.report();
    if (answer === 'away' || !can_wait) return jittered(this.poll_ms);
    const is_news = typeof answer !== 'string';
    const has_waited = performance.now() - asked_at > REST_MS;
    return is_news || has_waited ? 0 : jittered(REST_MS);
  }

  /** The file too if another configuration runs: what that may name rests on it. */
  private async readAgain(): Promise<void> {
    const { gateway, polled } = this;
    const settings = this.own.read();
    this.reloads += 1;
    const { answer } = await this.ask({ etag: undefined, wait_ms: 0 });
    await this.take(answer);
    if (answer === 'away' && polled.version !== null) throw notRead();
    if (polled.error !== null) throw invalid(polled.error);
    // The control plane's stands above the file.
    if (polled.version === null) await adopt(gateway, openSnapshot(settings, gateway));
  }

  private ask(question: Pick<ConfigQuestion, 'etag' | 'wait_ms' | 'signal'>): Promise<Heard> {
    return this.gateway.control_plane.configuration({ ...this.named, ...question });
  }

  private async take(answer: ConfigAnswer): Promise<void> {
    const { gateway, own, reach, polled } = this;
    if (answer === 'none') await goBack(gateway, own, polled);
    else if (typeof answer !== 'string')
      await takeUp(gateway, answer, { reach, file: own.last() }, polled);
  }
}

/** So that gateways which were started together do not ask together. */
function jittered(ms: number): number {
  return ms * (0.8 + 0.4 * Math.random());
}

/** Runs one after the other, so that an older answer never follows a newer one. */
function oneByOne() {
  let last: Promise<unknown> = Promise.resolve();
  return <T>(run: () => Promise<T>): Promise<T> => {
    const next = last.then(run);
    last = next.catch(() => undefined);
    return next;
  };
}

/** The control plane has no configuration: the file runs. */
async function goBack(
  gateway: Gateway,
  own: ReturnType<typeof openFile>,
  polled: Polled,
): Promise<void> {
  if (polled.version !== null) {
    // A file that cannot be run leaves what runs, and what is said of it, as they are.
    await adopt(gateway, openSnapshot(own.read(), gateway));
    gateway.log.info('the control plane has no configuration any more: the file runs');
  }
  // What it refused is gone too.
  Object.assign(polled, nothing_polled, { etag: NO_CONFIG_ETAG });
}

/** Adopts a configuration of the control plane if it is good. */
async function takeUp(
  gateway: Gateway,
  { etag, version, config }: Exclude<ConfigAnswer, string>,
  { reach, file }: { reach: Reach; file: Settings },
  polled: Polled,
): Promise<void> {
  polled.etag = etag;
  try {
    const settings = parseGiven(config, `version ${version}`, { file, reach });
    const takesOwnKeys = ownKeyReach(file, reach);
    await adopt(gateway, openSnapshot(settings, { ...gateway, takesOwnKeys }));
    Object.assign(polled, { version, refused_version: null, error: null });
    const closed = closedToOwnKeys(settings, takesOwnKeys);
    if (closed !== undefined) gateway.log.warn(closed, own_keys_closed);
    gateway.log.info({ version }, "the control plane's configuration runs");
  } catch (error) {
    const { message } = error as Error;
    polled.refused_version = version;
    polled.error = message.slice(0, ERROR_MAX_CHARACTERS);
    gateway.log.error({ version }, `a configuration was refused: ${message}`);
  }
}

/** The file, and what it said when it was last read: the control plane's reach rests on it. */
function openFile(file: string) {
  let last = readFile(file);
  return {
    last: () => last,
    read(): Settings {
      last = readFile(file);
      return last;
    },
  };
}

function readFile(file: string): Settings {
  try {
    return loadSettings(file);
  } catch (error) {
    if (error instanceof ConfigError) throw invalid(error.message);
    throw error;
  }
}

function invalid(message: string): AppError {
  return new AppError('invalid_configuration', message);
}

function notRead(): AppError {
  return new AppError(
    'unavailable',
    'The control plane, whose configuration runs here, is away: nothing was read. Repeat the request shortly.',
    { retry_after: 2 },
  );
}

/** The token that a header carries; empty if it carries none. */
export function bearerOf(authorization: string): string {
  return /^bearer\s+(\S+)\s*$/i.exec(authorization)?.[1] ?? '';
}

/**
 * Refuses a reload unless the token is that of a gateway or another service of this installation.
 */
export async function checkReload(
  control_plane: ControlPlane,
  token: string,
  log: Logger,
): Promise<void> {
  const right = token === '' ? 'unknown' : await control_plane.reloadRightOf(token);
  if (right === 'yes') return;
  log.warn({ right }, 'a reload was refused for its token');
  const words = 'A reload takes a token with the scope control_plane.';
  throw new AppError(right === 'forbidden' ? 'permission_denied' : 'invalid_credential', words);
}
