-- A key knows the person who made it, so that it falls with that person's rights.

-- The person behind the maker of a key: whom a key stands for, or who made the key that stands for nobody; an id that is no
-- key's is its own.
create function maker_of(p_id text) returns text language sql stable as $$
  select coalesce((select coalesce(k.user_id, u.id) from tokens k left join users u on u.id = k.created_by where k.id = p_id), p_id)
$$;

create function name_maker() returns trigger language plpgsql as $$
begin
  new.created_by := maker_of(new.created_by);
  return new;
end $$;

-- Whoever makes a key: a chain of keys that stand for nobody ends at a person.
create trigger tokens_maker before insert on tokens for each row execute function name_maker();

do $$
begin
  loop
    update tokens t set created_by = maker_of(t.created_by) where t.created_by <> maker_of(t.created_by);
    exit when not found;
  end loop;
end $$;
