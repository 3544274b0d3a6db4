import { type AppError, tooMany } from '../errors';
import { type Db, one } from '../sql';
import { type Buyer, isOwn } from './buyer';

/** Checkouts that are open at one time: a person returns to one, and few pay at one time. */
const OPEN_PER_BUYER_MAX = 20;
const OPEN_PER_ORG_MAX = 200;

/**
 * Throws 429 if the buyer or the organization has as many checkouts open as it may have. Run under
 * the organization's lock, so that no race passes it.
 */
export async function requireRoom(trx: Db, buyer: Buyer): Promise<void> {
  const open = await one<{ own: number; own_until: Date; all: number; all_until: Date }>(
    trx,
    `select count(*)::int as all, min(s.expires_at) as all_until, (count(*) filter (where ${isOwn}))::int as own,
       min(s.expires_at) filter (where ${isOwn}) as own_until
     from payment_sessions s where s.org_id = :org_id and s.status = 'created' and s.expires_at > clock_timestamp()`,
    { ...buyer },
  );
  if (open.own >= OPEN_PER_BUYER_MAX)
    throw tooManyOpen('This person or key', OPEN_PER_BUYER_MAX, open.own_until);
  if (open.all >= OPEN_PER_ORG_MAX)
    throw tooManyOpen('This organization', OPEN_PER_ORG_MAX, open.all_until);
}

function tooManyOpen(whose: string, limit: number, resets_at: Date): AppError {
  return tooMany(
    'open_checkouts_exceeded',
    `${whose} has ${limit} checkouts open, which is as many as may be. Pay or cancel one of them, or wait until the first of them ends.`,
    { limit, resets_at },
  );
}
