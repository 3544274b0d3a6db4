import { type LookupAddress, type LookupAllOptions, lookup } from 'node:dns';
import { readFile, stat } from 'node:fs/promises';
import { isIP, type LookupFunction } from 'node:net';
import path from 'node:path';
import { Agent, buildConnector, fetch } from 'undici';
import type { Catalog } from '../domain/prices/catalogs/catalog';
import { CatalogError, dayOf, readCatalog } from '../domain/prices/catalogs/read';
import { isInner } from '../runtime/inner';
import { builtInCatalog } from './built-in';

const BYTES_MAX = 33_554_432;
const TIME_MS = 30_000;

/** Who may be asked: everything but the inside of networks, unless a test says otherwise. */
export interface Reach {
  isAllowed: (address: string) => boolean;
  ca?: string;
}

const open_reach: Reach = { isAllowed: (address) => !isInner(address) };

/**
 * The catalog that somebody names: `genai-prices` is the one inside, an https address is fetched
 * (32 MB and 30 s at most, no redirect, no address inside a network), all else is a file. Throws
 * CatalogError with words for a terminal.
 */
export function catalogOf(named: string, reach: Reach = open_reach): Promise<Catalog> {
  if (named === 'genai-prices') return builtInCatalog();
  if (/^[a-z]+:\/\//i.test(named)) return fetched(named, reach);
  return fromFile(named);
}

async function fromFile(file: string): Promise<Catalog> {
  const found = await stat(file).catch((error: Error) => {
    throw new CatalogError(`${file} cannot be read: ${error.message}`);
  });
  if (!found.isFile()) throw new CatalogError(`${file} is no file.`);
  if (found.size > BYTES_MAX) throw new CatalogError(`${file} has more than 32 MB.`);
  const text = await readFile(file, 'utf8');
  // A file is as old as its last change, unless it says otherwise.
  return readCatalog(text, { name: path.basename(file), dated: dayOf(found.mtime) });
}

async function fetched(address: string, { isAllowed, ca }: Reach): Promise<Catalog> {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (url?.protocol !== 'https:')
    throw new CatalogError(`${address}: catalogs come by https only, from an address with a host.`);
  const judged: LookupFunction = (host, options, done) => {
    lookup(host, { ...options, all: true } as LookupAllOptions, (error, addresses) => {
      if (error) return done(error, '');
      const inside = addresses.find((one) => !isAllowed(one.address));
      if (inside !== undefined) return done(refused(host), '');
      return (done as (error: null, all: LookupAddress[]) => void)(null, addresses);
    });
  };
  // All that a name means is judged before anything is connected to; an address is not looked up.
  const connect = buildConnector({ lookup: judged, ...(ca === undefined ? {} : { ca }) });
  const dispatcher = new Agent({
    connect(target, done) {
      const host = target.hostname.replace(/^\[|\]$/g, '');
      if (isIP(host) !== 0 && !isAllowed(host)) return done(refused(host), null);
      return connect(target, done);
    },
  });
  try {
    const answer = await fetch(url, {
      ...{ dispatcher, redirect: 'error', signal: AbortSignal.timeout(TIME_MS) },
    });
    if (!answer.ok) throw new CatalogError(`it answered ${answer.status}`);
    const dated = answer.headers.get('last-modified');
    const text = await bounded(answer.body ?? []);
    const day = dated === null || Number.isNaN(Date.parse(dated)) ? null : dayOf(new Date(dated));
    // Prices show where they are from to everybody, and a query may hold what opens the file.
    return await readCatalog(text, { name: `${url.origin}${url.pathname}`, dated: day });
  } catch (error) {
    throw new CatalogError(`${address} cannot be read: ${wordsOf(error as Error)}`);
  } finally {
    await dispatcher.destroy();
  }
}

function refused(host: string): CatalogError {
  return new CatalogError(`${host} is an address inside a network, where nothing is fetched`);
}

async function bounded(body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<string> {
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of body) {
    bytes += piece.length;
    if (bytes > BYTES_MAX) throw new CatalogError('it has more than 32 MB');
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString('utf8');
}

/** What fetch says stands in the cause. */
function wordsOf({ message, cause }: Error): string {
  return cause instanceof Error ? cause.message : message;
}
