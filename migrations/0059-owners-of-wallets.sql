-- Whose a wallet is never changes with its money, and each hold and settlement moves that: what is checked of the owner is
-- checked where an owner is written, and no longer with each amount.

create function refuse_owner() returns trigger language plpgsql as $$
begin
  raise exception 'A wallet is of an organization, a team or a user, and names that one.' using errcode = 'check_violation';
end $$;

-- A wallet names the owner that its type says, and no other.
create trigger wallets_owner before insert or update of owner_type, owner_team_id, owner_user_id on wallets
for each row when (case new.owner_type
    when 'organization' then num_nonnulls(new.owner_team_id, new.owner_user_id) = 0
    when 'team' then new.owner_team_id is not null and new.owner_user_id is null
    when 'user' then new.owner_user_id is not null and new.owner_team_id is null
    else false end is not true)
execute function refuse_owner();

alter table wallets drop constraint wallets_check, drop constraint wallets_owner_type_check;
