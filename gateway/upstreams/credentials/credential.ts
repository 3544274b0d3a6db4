import { namedVariable } from '../../../runtime/config';
import { type AuthWay, wayOf } from '../../config/auth';
import { kindOf, type TargetSettings, urlOf } from '../../config/targets';
import type { Wire } from '../../providers/kind';
import { placeOf } from '../../providers/place';
import { silenceOf } from './hints';
import { KeyFile } from './key-file';
import type { Credential, Headers, Outbound } from './outbound';
import { type Lasting, Renewal } from './renewal';

const nothing: Credential = { headers: {} };

/** The keys of the platform that lie sealed elsewhere, by their names. */
export interface SealedKeys {
  /** Rejects if there is none of this name, or none can be had. */
  current(name: string): Promise<string>;
  /** The provider refused this value. True if another attempt may have a newer one. */
  refuse(name: string, value: string): boolean;
}

/**
 * The credentials of one configuration. Those whose tokens live are the same objects as in the
 * configuration before it, as long as they are made of the same: a reload asks for no token.
 */
export class Credentials {
  private readonly before: ReadonlyMap<string, Credential>;
  private readonly living = new Map<string, Credential>();
  private readonly sealed: SealedKeys;

  constructor(sealed: SealedKeys, before?: Credentials) {
    this.sealed = sealed;
    this.before = before?.living ?? new Map();
  }

  /** That of a target; a package that it needs is loaded by its first request. */
  open(row: TargetSettings, wire: Wire): Credential {
    const way = wayOf(row);
    const { scope = '', aws_service } = kindOf(row);
    if (way.form === 'none') return nothing;
    if (way.form === 'key') return keyed(way, wire, this.sealed);
    if (way.form === 'google')
      return this.alive([way, scope], () =>
        byToken(way, async () => (await import('./google.ts')).googleToken(way.google, scope)),
      );
    if (way.form === 'entra')
      return this.alive([way, scope], () =>
        byToken(way, async () => (await import('./entra.ts')).entraToken(way.entra, scope)),
      );
    const { region = '' } = row;
    const service = aws_service?.(placeOf(row)) ?? '';
    const { host } = urlOf(row);
    return this.alive([way, region, service, host], () =>
      signed(async () => {
        const { AwsSigner } = await import('./aws.ts');
        return new AwsSigner({ auth: way.aws, region, service, host });
      }),
    );
  }

  private alive(made_of: unknown, open: () => Credential): Credential {
    const name = JSON.stringify(made_of);
    const credential = this.living.get(name) ?? this.before.get(name) ?? open();
    this.living.set(name, credential);
    return credential;
  }
}

function keyed(
  { variable, file, sealed: name }: Extract<AuthWay, { form: 'key' }>,
  wire: Wire,
  sealed: SealedKeys,
): Credential {
  if (name !== undefined)
    return {
      headers: {},
      headersFor: async () => keyHeaders(wire, await sealed.current(name)),
      refuse: (sent) => sealed.refuse(name, keyIn(sent)),
    };
  if (file === undefined) {
    const key = variable === undefined ? undefined : namedVariable(variable);
    return key === undefined ? nothing : { headers: keyHeaders(wire, key) };
  }
  const held = new KeyFile(file);
  return {
    headers: {},
    headersFor: () => keyHeaders(wire, held.current()),
    refuse: (sent) => held.refuse(keyIn(sent)),
  };
}

/** A bearer token that lives for a while. */
function byToken(way: AuthWay, fetch: () => Promise<Lasting<string>>): Credential {
  const held = new Renewal(fetch, { silence: silenceOf(way) });
  return {
    headers: {},
    headersFor: async () => ({ authorization: `Bearer ${await held.current()}` }),
    refuse: (sent) => held.refuse(keyIn(sent)),
  };
}

interface Signer {
  headersFor(outbound: Outbound): Promise<Headers>;
  refuse(sent: Headers): boolean;
}

function signed(load: () => Promise<Signer>): Credential {
  let loading: Promise<Signer> | undefined;
  let signer: Signer | undefined;
  return {
    headers: {},
    async headersFor(outbound) {
      loading ??= load();
      signer ??= await loading;
      return signer.headersFor(outbound);
    },
    refuse: (sent) => signer?.refuse(sent) === true,
  };
}

/** The header by which a wire is told a key. */
export function keyHeaders({ key: place }: Wire, key: string): Headers {
  return place === 'bearer' ? { authorization: `Bearer ${key}` } : { [place]: key };
}

/** The key in such a header. */
export function keyIn(sent: Headers): string {
  const [value = ''] = Object.values(sent);
  return value.replace(/^Bearer /, '');
}
