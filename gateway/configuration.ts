import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError } from '../domain/errors';
import { ConfigError } from '../runtime/config';
import type { Logger } from '../runtime/log';
import { adopt } from './adopt';
import type { Gateway } from './call/call';
import { openSnapshot } from './call/snapshot';
import type { Reach } from './config/reach';
import { loadSettings, parseGiven, type Settings } from './config/settings';
import type { ControlPlane } from './control-plane/client';

/** Reads the gateway's configuration, and changes it while calls are under way. */
export interface Configuration {
  /**
   * Reads file and control plane again. A bad configuration changes nothing: 422
   * `invalid_configuration` says what is wrong.
   */
  reload(): Promise<Reloaded>;
  close(): void;
}

interface Reloaded {
  config_hash: string;
  previous_config_hash: string;
  /** The version of the control plane; null while the file runs. */
  config_version: number | null;
  source: 'file' | 'control_plane';
}

const POLL_MS = 5_000;
const REPORT_MS = 60_000;
const ERROR_MAX_CHARACTERS = 2_000;

/** What the control plane has, and what was last said to it. */
interface Polled {
  etag: string | undefined;
  version: number | null;
  refused_version: number | null;
  error: string | null;
}

/**
 * The configuration of a gateway: its file, until the control plane has one, which is then asked
 * for all the time.
 */
export function openConfiguration(
  gateway: Gateway,
  {
    file,
    reach = { origins: [], variables: [] },
    poll_ms = POLL_MS,
  }: { file: string; reach?: Reach; poll_ms?: number },
): Configuration {
  const { control_plane, log } = gateway;
  const id = crypto.randomUUID();
  const started_at = new Date();
  const polled: Polled = { etag: undefined, version: null, refused_version: null, error: null };
  const over = new AbortController();
  const inTurn = oneByOne();
  const own = openFile(file);
  const takeOrGoBack = async (etag: string | undefined) => {
    const heard = await take(gateway, { etag, reach, file: own.last() }, polled);
    if (heard !== 'none') return heard;
    if (polled.version !== null) {
      // A file that cannot be run leaves what runs, and what is said of it, as they are.
      await adopt(gateway, openSnapshot(own.read(), gateway));
      gateway.log.info('the control plane has no configuration any more: the file runs');
    }
    // What it refused is gone too.
    Object.assign(polled, { etag: undefined, version: null, refused_version: null, error: null });
    return heard;
  };
  // The file too if another configuration runs: what that may name rests on it.
  const readAgain = async (settings = own.read()): Promise<void> => {
    const heard = await takeOrGoBack(undefined);
    if (heard === 'away' && polled.version !== null) throw notRead();
    if (polled.error !== null) throw invalid(polled.error);
    // The control plane's stands above the file.
    if (polled.version === null) await adopt(gateway, openSnapshot(settings, gateway));
  };
  let reported = '';
  let report_at = 0;
  const report = async (): Promise<void> => {
    const state = { id, started_at, ...stateOf(gateway, polled) };
    const text = JSON.stringify(state);
    if (text === reported && performance.now() < report_at) return;
    if (!(await control_plane.report(state))) return;
    reported = text;
    report_at = performance.now() + REPORT_MS;
  };
  const poll = async (): Promise<void> => {
    await inTurn(() => takeOrGoBack(polled.etag));
    await report();
  };
  const pollOn = async (): Promise<void> => {
    while (!over.signal.aborted) {
      await poll().catch((error) => log.error({ err: error }, 'the configuration poll failed'));
      await sleep(poll_ms, undefined, { signal: over.signal, ref: false }).catch(() => undefined);
    }
  };
  void pollOn();
  return {
    async reload() {
      const previous_config_hash = gateway.snapshot.version;
      await inTurn(() => readAgain());
      void report().catch(() => undefined);
      const config_hash = gateway.snapshot.version;
      gateway.log.info({ config_hash, config_version: polled.version }, 'reloaded');
      return {
        config_hash,
        previous_config_hash,
        config_version: polled.version,
        source: polled.version === null ? 'file' : 'control_plane',
      };
    },
    close: () => over.abort(),
  };
}

/** What the control plane is told of this gateway's configuration. */
function stateOf({ snapshot }: Gateway, { version, refused_version, error }: Polled) {
  return {
    host: hostname(),
    config_hash: snapshot.version,
    config_version: version,
    refused_version,
    error,
  };
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

/** Asks the control plane, and adopts its configuration if that is new and good. */
async function take(
  gateway: Gateway,
  { etag, reach, file }: Pick<Polled, 'etag'> & { reach: Reach; file: Settings },
  polled: Polled,
): Promise<'heard' | 'none' | 'away'> {
  const answer = await gateway.control_plane.configuration(etag);
  if (answer === 'same') return 'heard';
  if (typeof answer === 'string') return answer;
  polled.etag = answer.etag;
  try {
    const settings = parseGiven(answer.config, `version ${answer.version}`, { file, reach });
    await adopt(gateway, openSnapshot(settings, gateway));
    Object.assign(polled, { version: answer.version, refused_version: null, error: null });
    gateway.log.info({ version: answer.version }, "the control plane's configuration runs");
  } catch (error) {
    const { message } = error as Error;
    polled.refused_version = answer.version;
    polled.error = message.slice(0, ERROR_MAX_CHARACTERS);
    gateway.log.error({ version: answer.version }, `a configuration was refused: ${message}`);
  }
  return 'heard';
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
  const verdict = token === '' ? 'unknown' : await control_plane.verdictOn(token);
  if (verdict === 'yes') return;
  log.warn({ verdict }, 'a reload was refused for its token');
  const words = 'A reload takes a token with the scope control_plane.';
  throw new AppError(verdict === 'forbidden' ? 'permission_denied' : 'invalid_credential', words);
}
