-- What the groups of an identity provider gave is found by the provider, however many people its organization has.
create index memberships_granted on memberships (granted_by, user_id) where granted_by is not null;
create index team_members_granted on team_members (granted_by, user_id) where granted_by is not null;
