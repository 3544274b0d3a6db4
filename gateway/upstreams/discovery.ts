import type { Dispatcher } from 'undici';
import type { Logger } from '../../runtime/log';
import { discoveryOf, type ServedModel, type TargetSettings } from '../config/targets';
import type { Shape, Wire } from '../providers/kind';
import { isObject, listOf, stringOf } from '../wire/values';
import { answerTo, type Credential, withoutTokens } from './credentials/outbound';

// The models that a target's own server lists.

const EVERY_MS = 60_000;
const LIMIT_MS = 5_000;
const LIST_MAX_BYTES = 4 * 1_048_576;
const PARTS_MAX = 5;
// A name stands in lists, lines of the log and paths: without blanks and signs that none shows.
const name_form = /^[^\s\p{C}]{1,256}$/u;
const TAKEN_SHOWN_MAX = 20;
// Anthropic lists twenty if it is not asked for more.
const ANTHROPIC_LIST = '/v1/models?limit=1000';

/** A target that serves what it lists. */
interface Discovering {
  id: string;
  url: string;
  origin: string;
  pool: Dispatcher;
  base_path: string;
  query: string;
  headers: Readonly<Record<string, string>>;
  credential: Credential;
  shape: Shape;
  wire: Wire;
  /** Those that its settings name, and those that it lists. */
  models: readonly ServedModel[];
}

/** Keeps the models of one target as its server lists them. */
export class Discovery {
  private readonly target: Discovering;
  private readonly row: TargetSettings;
  private readonly named: readonly ServedModel[];
  private readonly changed: () => void;
  private readonly isTaken: (name: string) => boolean;
  private listed: readonly string[] = [];
  private left_out = '';
  private timer: NodeJS.Timeout | undefined;

  /**
   * `changed` is called whenever the target serves other models than before. `isTaken` says of a
   * name that somebody else's model has it: a list of a server never diverts what settings name.
   */
  constructor(
    target: Discovering,
    row: TargetSettings,
    { changed, isTaken }: { changed: () => void; isTaken: (name: string) => boolean },
  ) {
    this.target = target;
    this.row = row;
    this.named = target.models;
    this.changed = changed;
    this.isTaken = isTaken;
  }

  /** Asks now, then every minute, until it is closed. What goes wrong leaves what was known. */
  async begin(log: Logger): Promise<void> {
    this.timer = setInterval(() => void this.ask(log), EVERY_MS).unref();
    await this.ask(log);
  }

  /** True for a server that a target of another configuration may be too. */
  isOf(id: string, url: string): boolean {
    return this.target.id === id && this.target.url === url;
  }

  /** The names that its server last listed; what settings name is none of them for that. */
  found(): readonly string[] {
    return this.listed;
  }

  /** Takes what another configuration knew of the same server's list. */
  take(listed: readonly string[]): void {
    this.listed = listed;
    const known = new Set(this.named.map(({ name }) => name));
    const { takes } = discoveryOf(this.row) ?? { takes: () => false };
    const more = listed.filter((name) => !known.has(name) && takes(name) && !this.isTaken(name));
    this.target.models = [
      ...this.named,
      ...more.map((name) => ({ name, upstream: name, priced: name })),
    ];
    this.changed();
  }

  close(): void {
    clearInterval(this.timer);
  }

  private async ask(log: Logger): Promise<void> {
    const at = { target: this.target.id };
    try {
      const listed = await this.list();
      const problem = this.use(listed);
      if (problem !== undefined) log.warn(at, `discover: ${problem}`);
      this.tellTaken(listed, log);
    } catch (error) {
      const { message } = error as Error;
      log.warn(
        { ...at, err_message: withoutTokens(message) },
        'discover: its list of models cannot be read',
      );
    }
  }

  /** Takes the names of a list; gives what is wrong with it, and how to mend that. */
  private use(listed: readonly string[]): string | undefined {
    const { takes, models_max } = discoveryOf(this.row) as NonNullable<
      ReturnType<typeof discoveryOf>
    >;
    const names = [...new Set(listed)].filter(takes);
    if (names.length === 0)
      return `none of the ${listed.length} models that it lists matches: name other patterns in "match".`;
    if (names.length > models_max)
      return `it lists ${names.length} models, more than models_max (${models_max}): narrow "match", or raise it.`;
    this.take(names);
    return undefined;
  }

  /** Says once which of its names are another target's or a group's, and are left to those. */
  private tellTaken(listed: readonly string[], log: Logger): void {
    const taken = listed.filter(this.isTaken).sort();
    if (taken.length === 0 || taken.join() === this.left_out) return;
    this.left_out = taken.join();
    const models = taken.slice(0, TAKEN_SHOWN_MAX);
    log.warn(
      { target: this.target.id, models },
      'discover: these names are served by targets of other providers, or are groups: they stay so',
    );
  }

  private async list(): Promise<string[]> {
    const { shape, wire } = this.target;
    const isName = (id: string) => name_form.test(id);
    const named = (ids: readonly string[]) => withoutPrefix(ids, wire.list_prefix).filter(isName);
    const { list } = wire;
    if (list === undefined)
      return named(idsIn(await this.get(shape === 'anthropic' ? ANTHROPIC_LIST : '/models')));
    const names: string[] = [];
    let token: string | undefined;
    for (let part = 0; part < PARTS_MAX; part += 1) {
      const behind = token === undefined ? '' : `&${list.token}=${encodeURIComponent(token)}`;
      const answer: unknown = JSON.parse(await this.get(`${list.path}${behind}`));
      const read = list.read(isObject(answer) ? answer : {});
      names.push(...read.names);
      token = read.next === '' ? undefined : read.next;
      if (token === undefined) return named(names);
    }
    throw new Error(`The list has more than ${PARTS_MAX} parts.`);
  }

  /** A list, or a part of it, as its text. */
  private async get(list: string): Promise<string> {
    const { origin, pool, base_path, query, headers, credential } = this.target;
    const more = list.includes('?') ? query.replace('?', '&') : query;
    const path = `${base_path}${list}${more}`;
    const outbound = { method: 'GET', path, body: Buffer.alloc(0) } as const;
    const { status, body } = await answerTo(credential, outbound, async (signed) => {
      const answer = await pool.request({
        origin,
        method: 'GET',
        path,
        headers: { ...headers, ...signed },
        headersTimeout: LIMIT_MS,
        bodyTimeout: LIMIT_MS,
        signal: AbortSignal.timeout(LIMIT_MS),
      });
      return { status: answer.statusCode, headers: answer.headers, body: await whole(answer.body) };
    });
    if (status === 401 || status === 403)
      throw new Error(`It answered ${status}: look at "auth" of this target.`);
    if (status !== 200) throw new Error(`It answered ${status}.`);
    return body;
  }
}

async function whole(body: AsyncIterable<unknown>): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += (chunk as Buffer).length;
    if (bytes > LIST_MAX_BYTES) throw new Error('The list is longer than 4 MiB.');
    chunks.push(chunk as Buffer);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** The names in an answer: a list in `data`, or alone. */
function idsIn(text: string): string[] {
  const given: unknown = JSON.parse(text);
  const list = Array.isArray(given) ? given : isObject(given) ? given.data : undefined;
  return listOf(list).map(({ id }) => stringOf(id));
}

function withoutPrefix(ids: readonly string[], prefix = ''): string[] {
  return ids.map((id) => (id.startsWith(prefix) ? id.slice(prefix.length) : id));
}
