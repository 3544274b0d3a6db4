-- How many codes were mailed lately: an address that is taken out and added again would get one each time.

create table notice_codes (
  -- The id of the organization, or `platform`.
  owner text not null,
  -- In small letters.
  address text not null,
  sent_at timestamptz not null default clock_timestamp()
);
create index notice_codes_owner on notice_codes (owner, sent_at);
create index notice_codes_sent on notice_codes (sent_at);
