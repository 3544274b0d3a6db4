-- A session that bound a subject is kept, so that what it bound falls with whoever opened the session: the subjects of each
-- session that is over are looked up by it.
create index identities_created_with on identities (created_with) where created_with is not null;
