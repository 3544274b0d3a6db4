import { columns, type DailyKind, nameThen, type Selected, selectList } from './columns';

// The entries of each wallet from one number to another: neither is ever changed, so that a part
// that is read again is the same. A day of a wallet lies between two numbers too.

const entry = columns([
  ['id', 'text', 't.id'],
  ['org_id', 'text', 't.org_id'],
  ['wallet_id', 'text', 't.wallet_id'],
  ['wallet_owner_type', 'text', 't.owner_type'],
  ['wallet_owner_id', 'text', 't.owner_id'],
  ['seq', 'integer', 't.seq'],
  ['created_at', 'time', 't.created_at'],
  ['type', 'text', 't.type'],
  ['phase', 'text', 't.phase'],
  ['currency', 'text', 't.currency'],
  ['amount_nanos', 'nanos', 't.amount_nanos'],
  ['balance_after_nanos', 'nanos', 't.balance_after_nanos'],
  ['actual_cost_nanos', 'nanos', 't.actual_cost_nanos'],
  ['provider', 'text', 't.provider'],
  ['model', 'text', 't.model'],
  ['reservation_id', 'text', 't.reservation_id'],
  ['transfer_id', 'text', 't.transfer_id'],
  ['payment_session_id', 'text', 't.payment_session_id'],
  ['description', 'text', 't.description'],
  ['actor', 'text', 't.actor'],
  ['wallet_owner_name', 'text', 't.owner_name'],
  ['actor_name', 'text', nameThen('t.actor')],
]);

// How a call was settled by this entry. What became of it later is another entry's.
const is_settled = `(t.phase = 'late' or (t.phase = 'close' and r.status in ('settled', 'released')))`;
const ifSettled = (sql: string) => `case when ${is_settled} then ${sql} end`;
const used = (name: string) => ifSettled(`r.usage -> '${name}'`);

const request = columns([
  ['transaction_id', 'text', 't.id'],
  ['org_id', 'text', 't.org_id'],
  ['request_id', 'text', 'r.request_id'],
  ['reservation_id', 'text', 'r.id'],
  ['session_id', 'text', 'r.session_id'],
  ['requested_at', 'time', 'r.created_at'],
  ['settled_at', 'time', 't.created_at'],
  [
    'status',
    'text',
    `case when t.phase in ('late', 'excess') then t.phase when ${is_settled} then r.status else 'expired' end`,
  ],
  ['outcome', 'text', ifSettled('r.outcome')],
  ['wallet_id', 'text', 't.wallet_id'],
  ['seq', 'integer', 't.seq'],
  ['key_id', 'text', 'r.key_id'],
  ['key_name', 'text', nameThen('r.key_id')],
  ['user_id', 'text', 'r.user_id'],
  ['user_name', 'text', nameThen('r.user_id')],
  ['user_email', 'text', 'u.email'],
  ['team_id', 'text', 'r.team_id'],
  ['team_name', 'text', nameThen('r.team_id')],
  ['agent_id', 'text', 'r.agent_id'],
  ['agent_name', 'text', nameThen('r.agent_id')],
  ['family', 'text', 'r.family'],
  ['provider', 'text', 't.provider'],
  ['model', 'text', 't.model'],
  ['prompt_tokens', 'integer', used('prompt_tokens')],
  ['completion_tokens', 'integer', used('completion_tokens')],
  ['usage', 'json', ifSettled('r.usage')],
  ['usage_source', 'text', ifSettled('r.usage_source')],
  ['price_version_id', 'text', 'p.version_id'],
  ['input_per_1m_usd', 'decimal', 'trim_scale(p.input_per_1m)'],
  ['output_per_1m_usd', 'decimal', 'trim_scale(p.output_per_1m)'],
  ['exchange_rate', 'decimal', 'trim_scale(r.exchange_rate)'],
  ['currency', 'text', 't.currency'],
  ['held_nanos', 'nanos', 'r.held_nanos'],
  ['cost_nanos', 'nanos', 't.actual_cost_nanos'],
  ['provider_key_id', 'text', ifSettled('r.provider_key_id')],
  ['price_factor', 'decimal', ifSettled('trim_scale(charged_factor(r, t.provider))')],
]);

const price_version = `case when (t.provider, t.model) = (r.provider, r.model) then r.price_version_id
  else (select f ->> 'price_version_id' from jsonb_array_elements(r.fallbacks) as f
    where (f ->> 'provider', f ->> 'model') = (t.provider, t.model) limit 1) end`;

const people = `join reservations r on r.id = t.reservation_id
  left join export_names u on u.export_id = :export_id and u.id = r.user_id
  left join model_prices p on p.version_id = ${price_version}`;

// A clock that was set back gives later entries earlier times. The days of a wallet meet all the
// same, and the first and the last one reach the bounds that the export was made with.
const low =
  'case when :is_first then x.from_seq else seq_before(x.wallet_id, :from, x.from_seq, x.to_seq) end';
const high =
  'case when :is_last then x.to_seq else seq_before(x.wallet_id, :to, x.from_seq, x.to_seq) end';

/** Every entry of every wallet. */
export const ledger: DailyKind = {
  selected: entry,
  key: ['wallet_id', 'seq'],
  page: pageOf(entry, 'true'),
  sums: { currency: 'currency', type: 'type', amount: 'amount_nanos' },
};

/** A row for each priced call: who made it, what it used, what it cost. */
export const requests: DailyKind = {
  selected: request,
  key: ['wallet_id', 'seq'],
  page: pageOf(request, `q.type = 'settlement'`, people),
  sums: { currency: 'currency', type: 'status', amount: 'cost_nanos' },
};

/**
 * A page walks from wallet to wallet and reads of each what is left, in the order of numbers. The
 * name of an owner is looked up once for a wallet: for each entry it takes longer than the entry.
 * Values become text last: rows of texts take longer to sort.
 */
function pageOf(selected: readonly Selected[], condition: string, joined = ''): string {
  return `
    with x as materialized (
      select x.wallet_id, x.from_seq, x.to_seq, w.owner_type, w.currency,
        coalesce(w.owner_team_id, w.owner_user_id) as owner_id,
        ${nameThen('coalesce(w.owner_team_id, w.owner_user_id, w.org_id)')} as owner_name
      from export_wallets x join wallets w on w.id = x.wallet_id
      where x.export_id = :export_id and x.wallet_id >= :after and x.to_seq > x.from_seq
      order by x.wallet_id
    )
    select ${selectList(selected)} from (
      select t.*, x.owner_type, x.owner_id, x.owner_name, x.currency, x.wallet_id as of_wallet
      from x cross join lateral (
        select q.* from wallet_transactions q
        where q.wallet_id = x.wallet_id and ${condition}
          and q.seq > greatest(${low},
            case when x.wallet_id = :after then coalesce(nullif(:after_2, '')::bigint, 0) else 0 end)
          and q.seq <= ${high}
        order by q.seq limit :limit
      ) as t
      order by x.wallet_id, t.seq limit :limit
    ) as t ${joined}
    order by t.of_wallet, t.seq`;
}
