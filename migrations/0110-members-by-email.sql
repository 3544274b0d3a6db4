-- Members of an organization by their e-mail address: it is looked for whenever a person with one is taken in or renamed,
-- under the organization's lock.
create index memberships_by_email on memberships (org_id, lower(email)) where archived_at is null;
