import { type GatewayEvent, insertion } from '../events';
import { type Db, prepared } from '../sql';
import { type Bodies, bindingsOf, type ItemAnswer } from './reservations';

/** One row, if every one of these keys is a living one of a service, whose use is noted. */
const ofLivingKeys = `(select cast(:org_id as text) as org_id where (
    select count(*) from token_secrets s join tokens t on t.id = s.token_id
    where s.hash = any(:keys) and t.revoked_at is null and t.token_type = 'access' and 'control_plane' = any(t.scopes)
      and t.user_id is null and t.last_used_at > clock_timestamp() - interval '1 minute'
      and coalesce(t.expires_at > clock_timestamp(), true) and coalesce(s.expires_at > clock_timestamp(), true)
  ) = cardinality(cast(:keys as text[])))`;

/**
 * Commits a batch without stored ids, and events of gateways with it, if the keys that they came
 * with, by their hashes, are good at this moment; else nothing happens, and there is no answer.
 */
export async function reserveBatchOf(
  db: Db,
  { keys, events = [] }: { keys: readonly string[]; events?: readonly GatewayEvent[] },
  org_id: string,
  bodies: Omit<Bodies, 'stored'>,
): Promise<ItemAnswer[] | undefined> {
  const bindings = { ...bindingsOf(org_id, bodies), keys };
  const lane =
    'select r.* from k cross join lateral lane_4(k.org_id, :settlements, :redeems, :reserves, :traces) as r';
  const given = `with k as materialized ${ofLivingKeys}`;
  const rows =
    events.length === 0
      ? await prepared<ItemAnswer>(db, 'lane_4_of_keys', `${given} ${lane}`, bindings)
      : await prepared<ItemAnswer>(
          db,
          'lane_4_with_events',
          `${given}, told as (${insertion('k cross join ')}) ${lane}`,
          { ...bindings, events: JSON.stringify(events) },
        );
  // Every item has an answer.
  return rows.length === 0 ? undefined : rows;
}
