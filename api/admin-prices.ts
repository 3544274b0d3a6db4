import { createInterface } from 'node:readline/promises';
import { parseArgs } from 'node:util';
import { actAs } from '../domain/audit-events';
import { isAppError } from '../domain/errors';
import * as configs from '../domain/gateways/configs';
import { CatalogError } from '../domain/prices/catalogs/read';
import { check } from '../domain/prices/check';
import { decimalText } from '../domain/prices/decimals';
import { type Diff, diff } from '../domain/prices/diff';
import { servedByVersions, servedIn } from '../domain/prices/factors';
import * as imports from '../domain/prices/imports';
import { makePlan, nameOf, type WholeSeller } from '../domain/prices/plan';
import { seller_names, sellerOf } from '../domain/prices/sellers';
import { atPlaces, type ServedModels } from '../domain/prices/served';
import { COST_DAYS, COST_DAYS_MAX } from '../domain/prices/told-costs';
import { undo } from '../domain/prices/undo';
import type { Db } from '../domain/sql';
import { builtInCatalog } from '../price-catalogs/built-in';
import { catalogOf } from '../price-catalogs/given';
import { ConfigError } from '../runtime/config';
import { readConfig, readPlan, writePlan } from './price-files';
import { checkLines, diffLines, discoveringLine, isInOrder } from './price-words';

type Print = (text: string) => void;

const usage = `Usage:
  prices import [--from genai-prices|FILE|https address]... [--targets gateway.yaml]... [--provider openai[=seller]]... [--all]
                [--factor provider=1.1]... [--out prices-plan.json]    proposes, and changes nothing
  prices diff PLAN                                                     what the plan would change by now
  prices apply PLAN [--yes] [--take provider/model]... [--free provider/model]... [--skip-asking|--take-asking]
  prices undo IMPORT                                                   "prices list" shows imports
  prices check [--from ...]... [--targets gateway.yaml]... [--days 1]  exits 1 if something is to be mended, or what is served is not known`;

const many = { type: 'string', multiple: true } as const;
const flag = { type: 'boolean' } as const;
const options = {
  ...{ from: many, targets: many, provider: many, factor: many, take: many, free: many },
  ...{ out: { type: 'string', default: 'prices-plan.json' } as const },
  ...{ days: { type: 'string', default: String(COST_DAYS) } as const },
  ...{ all: flag, yes: flag, 'skip-asking': flag, 'take-asking': flag },
};

/** `npm run admin -- prices …`: returns the exit code. */
export async function runPrices(db: Db, args: string[], print: Print): Promise<number> {
  try {
    return await run(db, args, print);
  } catch (error) {
    if (error instanceof CatalogError || isAppError(error)) throw new ConfigError(error.message);
    throw error;
  }
}

async function run(db: Db, args: string[], print: Print): Promise<number> {
  const { values, positionals } = given(args);
  const [verb, named] = positionals;
  if (verb === 'import') return propose(db, values, print);
  if (verb === 'check') return report(db, values, print);
  if (verb === 'list') return list(db, print);
  if (named === undefined) throw new ConfigError(usage);
  if (verb === 'diff') {
    for (const line of diffLines(await diff(db, readPlan(named)))) print(line);
    return 0;
  }
  if (verb === 'apply') return apply(db, named, values, print);
  if (verb === 'undo') return giveBack(db, named, print);
  throw new ConfigError(usage);
}

type Values = ReturnType<typeof given>['values'];

function given(args: string[]) {
  try {
    return parseArgs({ args, options, allowPositionals: true });
  } catch (error) {
    throw new ConfigError(`${(error as Error).message}\n${usage}`);
  }
}

async function propose(db: Db, values: Values, print: Print): Promise<number> {
  const catalogs = await catalogsOf(values);
  const found = await servedOf(db, values);
  const whole = wholeOf(values, found);
  const served = whole.length > 0 && values.targets === undefined ? [] : found.served;
  const { discovering = [] } = whole.length === 0 ? found : {};
  if (served.length + whole.length === 0 && discovering.length > 0)
    throw new ConfigError(discovering.map(discoveringLine).join('\n'));
  if (served.length + whole.length === 0)
    throw new ConfigError(
      `No served model is known here. Name a configuration (--targets gateway.yaml), sellers (--provider openai), or --all.\n${usage}`,
    );
  const told = factorsOf(values.factor ?? []);
  const factors = { ...found.factors, ...told };
  const wanted = { served, whole };
  const witness = await builtInCatalog();
  const plan = await makePlan(db, catalogs, wanted, factors, Object.keys(told), witness);
  writePlan(values.out, plan);
  for (const line of diffLines(await diff(db, plan))) print(line);
  for (const one of discovering) print(discoveringLine(one));
  print(
    `Nothing is changed yet. Read ${values.out}, then: npm run admin -- prices apply ${values.out}`,
  );
  return 0;
}

function catalogsOf({ from = ['genai-prices'] }: Values) {
  return Promise.all(from.map((named) => catalogOf(named)));
}

/** What the named configurations serve, else the one that gateways take from the control plane. */
async function servedOf(db: Db, { targets }: Values): Promise<ServedModels> {
  if (targets === undefined) return servedByVersions(db, await configs.assigned(db));
  return servedIn(db, ...targets.map(readConfig));
}

function wholeOf(
  { provider = [], all }: Values,
  { served, discovering = [] }: ServedModels,
): WholeSeller[] {
  const named = provider.map((one) => {
    const [name = '', seller = name] = one.split('=');
    if (sellerOf(seller) !== undefined) return { provider: name, seller };
    throw new ConfigError(
      `No catalog knows the seller ${seller}. Known are ${seller_names.join(', ')}.${seller === name ? ` Say --provider ${name}=openai if ${name} sells at the prices of openai.` : ''}`,
    );
  });
  if (all !== true || named.length > 0) return atPlaces(named, served);
  const known = [...served, ...discovering];
  const of_targets = new Map(known.map((one) => [one.provider, one.seller]));
  if (of_targets.size === 0) return seller_names.map((name) => ({ provider: name, seller: name }));
  return atPlaces(
    [...of_targets].map(([provider, seller]) => ({ provider, seller })),
    served,
  );
}

function factorsOf(factors: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    factors.map((one) => {
      const [provider = '', factor] = one.split('=');
      const amount = decimalText(factor);
      if (provider === '' || amount === undefined || Number(amount) > 1_000)
        throw new ConfigError(`--factor ${one}: say provider=1.1, with a factor from 0 to 1000.`);
      return [provider, amount];
    }),
  );
}

async function apply(db: Db, file: string, values: Values, print: Print): Promise<number> {
  const plan = readPlan(file);
  const found = await diff(db, plan);
  for (const line of diffLines(found)) print(line);
  const asking = found.rows.filter(({ group }) => group === 'asks');
  const priced = asking.filter(({ is_empty }) => !is_empty).map(nameOf);
  const take = [...(values.take ?? []), ...(values['take-asking'] ? priced : [])];
  let skip_asking = values['skip-asking'] === true || values['take-asking'] === true;
  const free = [...(values.free ?? [])];
  let chosen = plan;
  if (values.yes !== true) {
    if (!process.stdin.isTTY) throw new ConfigError('Without a terminal, say --yes.');
    const said = await ask(found, new Set([...take, ...free]), skip_asking);
    take.push(...said.take);
    free.push(...said.free);
    const left = new Set(said.left);
    // What got a no is no part of the plan; what asks and got none is left as it is.
    chosen = { ...plan, rows: plan.rows.filter((row) => !left.has(nameOf(row))) };
    skip_asking = true;
    if (said.count + take.length + free.length === 0) {
      print('Nothing is changed.');
      return 1;
    }
  }
  const consent = { take, free, skip_asking };
  const made = await db.transaction(async (trx) => {
    await actAs(trx, { actor: 'terminal' });
    return imports.apply(trx, chosen, consent, 'terminal');
  });
  print(`${made.id}: ${made.prices} prices. The way back: npm run admin -- prices undo ${made.id}`);
  const said = new Set([...take, ...free]);
  const left = asking.map(nameOf).filter((name) => !said.has(name));
  if (left.length > 0)
    print(
      `Left as they are, since each asks for a yes of its own (--take provider/model): ${left.join(', ')}`,
    );
  return 0;
}

async function isYes(question: string): Promise<boolean> {
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  try {
    return /^y(es)?$/i.test(await terminal.question(`${question} [y/N] `));
  } finally {
    terminal.close();
  }
}

interface Said {
  take: string[];
  free: string[];
  /** Rows of groups that got a no. */
  left: string[];
  /** Rows of groups that got a yes. */
  count: number;
}

/** A yes for each group, each row that asks unless those are left, and each that a person set. */
async function ask(
  { rows }: Diff,
  named: ReadonlySet<string>,
  skip_asking: boolean,
): Promise<Said> {
  const in_group = (group: string) =>
    rows.filter((row) => row.group === group && !named.has(nameOf(row)));
  const said: Said = { take: [], free: [], left: [], count: 0 };
  for (const group of ['new', 'changed']) {
    const own = in_group(group);
    if (own.length === 0) continue;
    if (await isYes(`Take ${own.length} ${group} prices?`)) said.count += own.length;
    else said.left.push(...own.map(nameOf));
  }
  for (const row of skip_asking ? [] : in_group('asks')) {
    const name = nameOf(row);
    if (row.may_be_free && (await isYes(`${name}: no amount is listed. Does it cost nothing?`)))
      said.free.push(name);
    if (!row.is_empty && (await isYes(`${name}: ${row.doubts.join('; ')}. Take it?`)))
      said.take.push(name);
  }
  const kept = in_group('kept').filter(({ is_empty }) => !is_empty);
  if (kept.length > 0 && (await isYes(`Go through ${kept.length} prices that were set by hand?`)))
    for (const row of kept)
      if (await isYes(`${nameOf(row)}: take the catalog's in its place?`))
        said.take.push(nameOf(row));
  return said;
}

async function giveBack(db: Db, id: string, print: Print): Promise<number> {
  const { prices } = await imports.get(db, id);
  const words = `${prices} versions of prices end; models that had no price before are refused from now on. Go on?`;
  if (process.stdin.isTTY && !(await isYes(words))) {
    print('Nothing is changed.');
    return 1;
  }
  const { restored, removed, kept } = await db.transaction(async (trx) => {
    await actAs(trx, { actor: 'terminal' });
    return undo(trx, id, 'terminal');
  });
  print(
    `${restored.length} prices are back at the version before, ${removed.length} are gone again.`,
  );
  for (const name of kept) print(`${name} was changed since, and stays.`);
  return 0;
}

async function list(db: Db, print: Print): Promise<number> {
  const found = await imports.list(db);
  for (const { id, created_at, actor, prices, sources, undone_at } of found)
    print(
      `${id}  ${created_at.toISOString()}  ${prices} prices of ${sources.map(({ catalog, version }) => `${catalog} ${version}`).join(', ')} by ${actor}${undone_at === null ? '' : ', undone'}`,
    );
  if (found.length === 0) print('No prices were imported.');
  return 0;
}

function daysOf({ days }: Values): number {
  const count = /^\d{1,3}$/.test(days) ? Number(days) : 0;
  if (count >= 1 && count <= COST_DAYS_MAX) return count;
  throw new ConfigError(`--days ${days}: say a number from 1 to ${COST_DAYS_MAX}.`);
}

async function report(db: Db, values: Values, print: Print): Promise<number> {
  const wanted = await servedOf(db, values);
  const found = await check(db, await catalogsOf(values), wanted, daysOf(values));
  for (const line of checkLines(found, wanted)) print(line);
  return isInOrder(found, wanted) ? 0 : 1;
}
