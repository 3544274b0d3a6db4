-- Tells of money that somebody put into a wallet or moved between two. `user_id` and `team_id` are the owners of the wallets that it
-- changed: by them a person without a permission follows their own. What a rule moves for a call is told by the ticket's events.
create function tell_move() returns trigger language plpgsql as $$
declare
  v_to wallets;
  v_from wallets;
  v_floors constant text[] := '{user,team,organization}';
begin
  select * into v_to from wallets q where q.id = new.wallet_id;
  if new.type = 'allocation_in' then
    select q.* into v_from from wallet_transactions t join wallets q on q.id = t.wallet_id
    where t.transfer_id = new.transfer_id and t.type = 'allocation_out';
  end if;
  perform append_event(new.org_id, case
      when v_from.id is null then 'wallet.credited'
      when array_position(v_floors, v_to.owner_type) > array_position(v_floors, v_from.owner_type) then 'wallet.reclaimed'
      else 'wallet.allocated' end,
    jsonb_strip_nulls(jsonb_build_object('wallet_id', v_to.id, 'owner_type', v_to.owner_type, 'from_wallet_id', v_from.id,
      'from_owner_type', v_from.owner_type, 'user_id', coalesce(v_to.owner_user_id, v_from.owner_user_id),
      'team_id', coalesce(v_to.owner_team_id, v_from.owner_team_id), 'amount_nanos', new.amount_nanos::text,
      'currency', v_to.currency, 'transaction_id', new.id, 'transfer_id', new.transfer_id, 'actor', new.actor)));
  return null;
end $$;

create trigger wallet_transactions_tell after insert on wallet_transactions
for each row when (new.type in ('credit', 'allocation_in') and new.actor is not null and new.actor not like 'rule\_%')
execute function tell_move();
