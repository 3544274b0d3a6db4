-- What the groups of an identity provider gave, so that it goes when the groups go; what people gave by hand stays.

alter table memberships add column granted_by text;
comment on column memberships.granted_by is 'The identity provider whose groups gave the role; null: people did.';
alter table team_members add column granted_by text;
comment on column team_members.granted_by is 'The identity provider whose groups took the person in; null: people did.';
