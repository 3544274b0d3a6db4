import { type ListRequest, listOf, type Part } from '../lists';
import type { Page } from '../pages';
import { type Db, deleteInSteps, many } from '../sql';
import type { ProviderName } from './currencies';

/** A webhook of a provider whose signature is good. */
export interface ReceivedEvent {
  provider: ProviderName;
  id: string;
  type: string;
  topic: 'payment' | 'refund' | 'other';
  payment_session_id: string | null;
  order_id: string | null;
  capture_id: string | null;
  /** The raw body. */
  body: string;
}

// A session of ours that the event names, by our id, the provider's order or its capture.
const sessionOf = `select s.id, s.org_id, s.status from payment_sessions s
  where s.provider = e.provider and (s.id = e.named_session_id or s.provider_order_id = e.order_id or s.provider_capture_id = e.capture_id)
  order by s.id = e.named_session_id desc nulls last limit 1`;

/**
 * Stores a webhook and a message to its session's workflow in one statement, so that no crash can
 * separate the two. A repeated delivery changes nothing. News of a payment whose session is
 * complete already is stored without a message.
 */
export async function record(db: Db, event: ReceivedEvent): Promise<void> {
  await many(
    db,
    `with e as (
       select :provider::text as provider, :payment_session_id::text as named_session_id, :order_id::text as order_id, :capture_id::text as capture_id
     ), s as (select q.* from e cross join lateral (${sessionOf}) as q),
     stored as (
       insert into payment_events (provider, id, type, payment_session_id, named_session_id, order_id, capture_id, body, status)
       select :provider, :id, :type, s.id, :payment_session_id, :order_id, :capture_id,
         case when s.id is null and :topic <> 'other' then :body end,
         case when :topic = 'other' or (:topic = 'payment' and s.status in ('completed', 'refunded')) then 'ignored'
           when s.id is null then 'unknown' else 'sent' end
       from (select 1) as always left join s on true
       on conflict (provider, id) do nothing returning payment_session_id, status
     )
     select send_to_workflow(s.org_id, 'paymentSession', s.id, 'providerEvent', jsonb_build_object('payment_session_id', s.id))
     from stored join s on s.id = stored.payment_session_id where stored.status = 'sent'`,
    { ...event },
  );
}

/**
 * Looks again for the sessions of up to `limit` events that came before them; how many were found.
 */
export async function matchUnknown(db: Db, limit: number): Promise<number> {
  const rows = await many(
    db,
    `with found as (
       select e.provider, e.id, q.id as session_id, q.org_id from payment_events e cross join lateral (${sessionOf}) as q
       where e.status = 'unknown' and e.received_at > clock_timestamp() - interval '3 days' limit :limit
     ), told as (
       update payment_events e set status = 'sent', payment_session_id = f.session_id, body = null from found f
       where e.provider = f.provider and e.id = f.id and e.status = 'unknown' returning f.session_id, f.org_id
     )
     select send_to_workflow(t.org_id, 'paymentSession', t.session_id, 'providerEvent', jsonb_build_object('payment_session_id', t.session_id))
     from told t`,
    { limit },
  );
  return rows.length;
}

/**
 * Webhooks that name no session of ours, of the last three days, counted by kind: another shop on
 * the same account sends many.
 */
export async function unknown(
  db: Db,
): Promise<{ provider: ProviderName; type: string; count: number; newest: Date }[]> {
  return many(
    db,
    `select provider, type, count(*)::int as count, max(received_at) as newest from payment_events
     where status = 'unknown' and received_at > clock_timestamp() - interval '3 days'
     group by provider, type order by provider, type`,
  );
}

export const eventStatuses = ['unmatched', 'sent', 'ignored'] as const;

/** A webhook as operators see it, without its body. */
interface ListedEvent {
  provider: ProviderName;
  id: string;
  type: string;
  /** unmatched: it names no session of ours. */
  status: (typeof eventStatuses)[number];
  payment_session_id: string | null;
  named_session_id: string | null;
  order_id: string | null;
  capture_id: string | null;
  received_at: Date;
}

/** Webhooks of the last 90 days whose signature was good. */
export function list(
  db: Db,
  {
    status,
    provider,
  }: { status?: ListedEvent['status'] | undefined; provider?: string | undefined },
  request: ListRequest,
): Promise<Page<ListedEvent> | Part<ListedEvent>> {
  const conditions = [
    ...(status ? ['e.status = :status'] : []),
    ...(provider ? ['e.provider = :provider'] : []),
  ];
  return listOf(
    db,
    {
      name: 'webhooks',
      select: `select e.provider, e.id, e.type, case e.status when 'unknown' then 'unmatched' else e.status end as status,
        e.payment_session_id, e.named_session_id, e.order_id, e.capture_id, e.received_at`,
      from: `from payment_events e where ${['true', ...conditions].join(' and ')}`,
      bindings: {
        status: status === 'unmatched' ? 'unknown' : (status ?? null),
        provider: provider ?? null,
      },
      id: `(e.provider || ' ' || e.id)`,
      created_at: 'e.received_at',
      orders: { created_at: { by: 'e.received_at', type: 'timestamptz' } },
    },
    request,
  );
}

const BODIES_A_TIME = 10_000;

/**
 * Forgets webhooks after 90 days; how many. The body of one that names no session is of use for the
 * three days in which it may be matched, and holds what a buyer told another shop.
 */
export async function forget(db: Db): Promise<number> {
  await many(
    db,
    `update payment_events e set body = null from (
       select provider, id from payment_events
       where body is not null and received_at < clock_timestamp() - interval '3 days' limit :limit
     ) as old
     where e.provider = old.provider and e.id = old.id`,
    { limit: BODIES_A_TIME },
  );
  return deleteInSteps(
    db,
    'payment_events',
    `received_at < clock_timestamp() - interval '90 days'`,
  );
}
