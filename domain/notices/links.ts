import { sha256 } from '../digest';
import { AppError } from '../errors';
import type { Secrets } from '../secrets';
import { type Db, many, maybe } from '../sql';

/** What a one-time link stands for. */
export interface TicketLink {
  ticket_id: string;
  verdict: 'approved' | 'denied';
  /** It was used, or its ticket is closed. */
  is_dead: boolean;
}

/**
 * The secret of the link in a message by which a ticket gets a verdict: 256 bits, the same for each
 * try of the message. Undefined once it decides nothing any more: the ticket has been closed since,
 * though it may be open again. The database keeps its hash alone.
 */
export async function make(
  db: Db,
  secrets: Secrets,
  given: { message_id: string; ticket_id: string; verdict: 'approved' | 'denied' },
): Promise<string | undefined> {
  const { message_id, ticket_id, verdict } = given;
  const secret = await secrets.sign('ticket_link', message_id, ticket_id, verdict);
  const link = await maybe<{ is_dead: boolean }>(
    db,
    `insert into ticket_links (hash, ticket_id, verdict, message_id, ended_at)
     select :hash, t.id, :verdict, :message_id, case when t.status <> 'open' then clock_timestamp() end
     from cost_tickets t where t.id = :ticket_id
     on conflict (hash) do update set hash = excluded.hash returning ended_at is not null as is_dead`,
    { ...given, hash: await sha256(secret) },
  );
  return link?.is_dead === false ? secret : undefined;
}

/** Throws `not_found` for a link that nobody made. */
export async function find(db: Db, secret: string): Promise<TicketLink> {
  const found = await maybe<TicketLink>(
    db,
    `select l.ticket_id, l.verdict, l.ended_at is not null or t.status <> 'open' or t.expires_at <= clock_timestamp() as is_dead
     from ticket_links l join cost_tickets t on t.id = l.ticket_id where l.hash = :hash`,
    { hash: await sha256(secret) },
  );
  if (found) return found;
  throw new AppError('not_found', 'This link is unknown. Open the ticket from your inbox.', {
    param: 'link',
  });
}

/** Says who used a link: of several at once the first, for whom it returns true. */
export async function use(db: Db, secret: string, by: string): Promise<boolean> {
  const rows = await many(
    db,
    `update ticket_links l set ended_at = coalesce(l.ended_at, clock_timestamp()), used_by = :by
     where l.hash = :hash and l.used_by is null returning l.hash`,
    { hash: await sha256(secret), by },
  );
  return rows.length > 0;
}

const NONCE_MS = 15 * 60_000;

/** A nonce of the page that decides, good for 15 minutes. */
export async function pageNonce(secrets: Secrets, now: number): Promise<string> {
  const part = `${now}.${crypto.randomUUID()}`;
  return `${part}.${await secrets.sign('page_nonce', part)}`;
}

/** Throws `invalid_field` unless this API made the nonce within 15 minutes. */
export async function requireNonce(secrets: Secrets, nonce: string, now: number): Promise<void> {
  const [time = '', random = '', signature = ''] = nonce.split('.');
  const is_ours = await secrets.isSigned(signature, 'page_nonce', `${time}.${random}`);
  if (is_ours && now - Number(time) < NONCE_MS) return;
  throw new AppError('invalid_field', 'This page is too old. Open the link again.', {
    param: 'nonce',
  });
}
