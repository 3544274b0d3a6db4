import { AppError } from '../errors';
import { newId } from '../ids';
import { requireLiving } from '../known';
import { isMadeBefore, type Page, type PageRequest, pageOf } from '../pages';
import { owner_of } from '../sealed';
import type { Secrets } from '../secrets';
import { type Db, many, one, owns } from '../sql';
import type { Channel, NoticeKind } from './kinds';

/** Somebody whom an email destination writes to, once the address is confirmed. */
export interface Recipient {
  id: string;
  address: string;
  confirmed_at: Date | null;
}

/** Where people are told of things. Its secrets are never shown. */
export interface Destination {
  id: string;
  /** Null: the platform's. */
  org_id: string | null;
  name: string;
  channel: Channel;
  /** Of a webhook; null for other channels. */
  url: string | null;
  host: string | null;
  kinds: NoticeKind[];
  recipients: Recipient[];
  created_by: string;
  created_at: Date;
  disabled_at: Date | null;
  disabled_reason: string | null;
}

/** What a destination is reached by: the secret of a webhook, or the address of a channel. */
export interface Credentials {
  secret?: string | undefined;
  url?: string | undefined;
}

/** An organization's id, null for the platform; undefined for any owner. */
export type Owner = string | null | undefined;

const columns = `d.id, d.org_id, d.name, d.channel, d.url, d.host, d.kinds, d.created_by, d.created_at, d.disabled_at,
  d.disabled_reason, coalesce((select jsonb_agg(jsonb_build_object('id', r.id, 'address', r.address, 'confirmed_at', iso_time(r.confirmed_at))
    order by r.id) from notice_recipients r where r.destination_id = d.id), '[]') as recipients`;

const owned = '(:is_any or d.org_id is not distinct from :org_id) and d.archived_at is null';

function ownerBindings(owner: Owner) {
  return { org_id: owner ?? null, is_any: owner === undefined };
}

/** Destinations in use, newest first. */
export function list(
  db: Db,
  org_id: string | null,
  window: PageRequest,
): Promise<Page<Destination>> {
  return pageOf<Destination>(
    db,
    {
      select: `select ${columns}`,
      all: `from notice_destinations d
        where ${owns('d.org_id', org_id)} and d.archived_at is null and ${isMadeBefore('d.created_at')}`,
      ordered: 'order by d.id desc',
    },
    { org_id },
    window,
  );
}

/** A destination in use; throws `not_found` for that of another owner. */
export function get(db: Db, id: string, owner: Owner): Promise<Destination> {
  return one<Destination>(
    db,
    `select ${columns} from notice_destinations d where d.id = :id and ${owned}`,
    { id, ...ownerBindings(owner) },
    'No destination',
  );
}

const DESTINATIONS_MAX = 50;

interface NewDestination {
  org_id: string | null;
  name: string;
  channel: Channel;
  url: string | null;
  host: string | null;
  kinds: readonly NoticeKind[];
  created_by: string;
}

/** Keeps a destination, its credentials sealed. An organization has 50 at most. */
export async function create(
  trx: Db,
  secrets: Secrets,
  given: NewDestination & { credentials: Credentials },
): Promise<Destination> {
  const { credentials, ...row } = given;
  await requireLiving(trx, row.org_id);
  await many(
    trx,
    `select pg_advisory_xact_lock(hashtext('notice_destinations'), hashtext(:owner))`,
    {
      owner: row.org_id ?? 'platform',
    },
  );
  const { count } = await one<{ count: number }>(
    trx,
    `select count(*)::int as count from notice_destinations d where ${owns('d.org_id', row.org_id)} and d.archived_at is null`,
    { org_id: row.org_id },
  );
  if (count >= DESTINATIONS_MAX)
    throw new AppError('invalid_field', `There are ${DESTINATIONS_MAX} destinations; remove one.`, {
      param: 'name',
    });
  const id = newId('nd');
  return one<Destination>(
    trx,
    `insert into notice_destinations as d (id, org_id, name, channel, url, host, credentials, kinds, created_by)
     values (:id, :org_id, :name, :channel, :url, :host, :credentials, :kinds, :created_by) returning ${columns}`,
    {
      id,
      ...row,
      kinds: [...row.kinds],
      credentials: JSON.stringify(await sealed(secrets, id, credentials)),
    },
  );
}

export interface Change {
  name?: string | undefined;
  kinds?: readonly NoticeKind[] | undefined;
  enabled?: boolean | undefined;
  /** Both together: an address that changes needs its secret again. */
  to?: { url: string | null; host: string; credentials: Credentials } | undefined;
}

/** Changes what is given; what it was disabled for is forgotten once it is enabled. */
export async function change(
  trx: Db,
  secrets: Secrets,
  { id, owner }: { id: string; owner: Owner },
  { name, kinds, enabled, to }: Change,
): Promise<Destination> {
  const credentials = to && JSON.stringify(await sealed(secrets, id, to.credentials));
  await one(
    trx,
    `update notice_destinations d set name = coalesce(:name, d.name), kinds = coalesce(:kinds::text[], d.kinds),
       url = case when :moves then :url else d.url end, host = coalesce(:host, d.host),
       credentials = coalesce(:credentials::jsonb, d.credentials),
       disabled_at = case when :enabled::boolean then null when not :enabled::boolean then coalesce(d.disabled_at, clock_timestamp()) else d.disabled_at end,
       disabled_reason = case when :enabled::boolean then null when not :enabled::boolean then coalesce(d.disabled_reason, 'A person disabled it.') else d.disabled_reason end
     where d.id = :id and ${owned} returning d.id`,
    {
      id,
      ...ownerBindings(owner),
      name: name ?? null,
      kinds: kinds ? [...kinds] : null,
      enabled: enabled ?? null,
      moves: to !== undefined,
      url: to?.url ?? null,
      host: to?.host ?? null,
      credentials: credentials ?? null,
    },
    'No destination',
  );
  if (enabled || to) await many(trx, 'select retry_notices(:id)', { id });
  return get(trx, id, owner);
}

/**
 * Takes a destination out of use; what waited for it is given up, and its credentials and
 * recipients are forgotten. Returns it with the recipients that it had.
 */
export function archive(trx: Db, id: string, owner: Owner): Promise<Destination> {
  return one<Destination>(
    trx,
    `with gone as (
       delete from notice_recipients r using notice_destinations d where r.destination_id = d.id and d.id = :id and ${owned}
     )
     update notice_destinations d set archived_at = clock_timestamp(), credentials = '{}' where d.id = :id and ${owned} returning ${columns}`,
    { id, ...ownerBindings(owner) },
    'No destination',
  );
}

/**
 * Disables a destination whose server said that it is gone, and says so in an event; not if it is
 * reached by something else by now than what was sent to.
 */
export async function disable(
  db: Db,
  id: string,
  { sent_to, reason }: { sent_to: string; reason: string },
): Promise<void> {
  await many(
    db,
    `with gone as (
       update notice_destinations d set disabled_at = clock_timestamp(), disabled_reason = :reason
       where d.id = :id and d.disabled_at is null and notice_target(d) = :sent_to returning d.id, d.org_id, d.name, d.channel
     )
     select append_event(coalesce(g.org_id, 'platform'), 'notice.disabled', jsonb_build_object('destination_id', g.id,
       'name', g.name, 'channel', g.channel, 'reason', :reason::text)) from gone g`,
    { id, sent_to, reason },
  );
}

/** A destination as it is sent to: with its credentials, and confirmed recipients alone. */
export interface OpenDestination extends Pick<Destination, 'id' | 'org_id' | 'name' | 'channel'> {
  /** It was removed since its message was taken: nothing says how to reach it. */
  is_removed: boolean;
  /** What it is reached by: another address, secret or recipient is another target. */
  target: string;
  /** Empty for mail. */
  url: string;
  secret: string | undefined;
  addresses: string[];
}

/** Opens a destination for sending. */
export async function open(db: Db, secrets: Secrets, id: string): Promise<OpenDestination> {
  const { credentials, url, recipients, ...row } = await one<
    Destination & { credentials: Credentials } & Pick<OpenDestination, 'is_removed' | 'target'>
  >(
    db,
    `select ${columns}, d.credentials, d.archived_at is not null as is_removed,
       notice_target(d) as target
     from notice_destinations d where d.id = :id`,
    { id },
    'No destination',
  );
  const opened = async (name: keyof Credentials) => {
    const value = credentials[name];
    return value === undefined
      ? undefined
      : secrets.open(value, owner_of.notice_destination(id, name));
  };
  return {
    id: row.id,
    org_id: row.org_id,
    name: row.name,
    channel: row.channel,
    is_removed: row.is_removed,
    target: row.target,
    url: (await opened('url')) ?? url ?? '',
    secret: await opened('secret'),
    addresses: recipients
      .filter(({ confirmed_at }) => confirmed_at !== null)
      .map(({ address }) => address),
  };
}

async function sealed(secrets: Secrets, id: string, credentials: Credentials) {
  const entries = Object.entries(credentials).filter(([, value]) => value !== undefined);
  return Object.fromEntries(
    await Promise.all(
      entries.map(async ([name, value]) => [
        name,
        await secrets.seal(
          value as string,
          owner_of.notice_destination(id, name as keyof Credentials),
        ),
      ]),
    ),
  );
}
