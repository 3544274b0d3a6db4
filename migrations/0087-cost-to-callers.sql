-- Keys whose callers are told what calls cost.

alter table tokens
  -- Gateways add the cost to the usage of answers, unless a call says otherwise.
  add column include_cost boolean not null default false;
