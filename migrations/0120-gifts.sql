-- What is left of the gifts of teams is counted from where it was counted last. Before, each reclaim added up the person's ledger
-- since their first gift, under the organization's lock.

-- Per wallet of a person that a team takes from: how far its entries are counted, what they come to with holds, and what is left of
-- each gift, `[{giver, nanos}]`, the oldest first.
create table gift_folds (
  wallet_id text primary key references wallets,
  folded_seq bigint not null default 0,
  total_nanos numeric not null default 0,
  lots jsonb not null default '[]'
);
