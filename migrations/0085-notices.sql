-- What people are told of outside: where to, what happened, and the messages that carry it there.

-- A webhook, a channel of Slack or Teams, or mail to confirmed recipients; of an organization, or of the platform.
create table notice_destinations (
  id text primary key default new_id('nd'),
  -- Null: the platform's.
  org_id text references organizations,
  name text not null,
  channel text not null check (channel in ('webhook', 'slack', 'teams', 'email')),
  -- Where a webhook goes; the address of a Slack or Teams channel is a secret of its own, so only its host is shown.
  url text,
  host text,
  -- Ciphertext by name, bound to this row (domain/secrets.ts): `secret` of a webhook, `url` of a Slack or Teams channel.
  credentials jsonb not null default '{}',
  -- What it is told of.
  kinds text[] not null,
  created_by text not null,
  created_at timestamptz not null default clock_timestamp(),
  -- Nothing is sent there until a person turns it on again.
  disabled_at timestamptz,
  disabled_reason text,
  archived_at timestamptz
);
create index notice_destinations_org on notice_destinations (org_id, id desc) where archived_at is null;

-- Whom an email destination writes to: nobody who has not entered a code that was mailed to them.
create table notice_recipients (
  id text primary key default new_id('rcp'),
  destination_id text not null references notice_destinations,
  address text not null,
  created_at timestamptz not null default clock_timestamp(),
  -- The mailed code is of this moment; a new one makes it worthless.
  asked_at timestamptz not null default clock_timestamp(),
  wrong_codes integer not null default 0,
  confirmed_at timestamptz,
  unique (destination_id, address)
);

-- How the sending to a destination stands. Apart from it, because each notice locks this row.
create table notice_queues (
  destination_id text primary key references notice_destinations,
  -- Its workflow has been asked to look and has not looked yet.
  is_woken boolean not null default false,
  -- Sends in a row that failed because of the destination.
  failures integer not null default 0
);

-- One message to a destination, and how it fares.
create table notice_messages (
  id text primary key default new_id('msg'),
  destination_id text not null references notice_destinations,
  kind text not null,
  notice_count integer not null,
  -- Whom a confirmation is mailed to.
  recipient_id text references notice_recipients on delete cascade,
  status text not null default 'waiting' check (status in ('waiting', 'delivered', 'failed')),
  attempts integer not null default 0,
  next_at timestamptz not null default clock_timestamp(),
  give_up_at timestamptz not null default clock_timestamp() + interval '24 hours',
  created_at timestamptz not null default clock_timestamp(),
  attempted_at timestamptz,
  delivered_at timestamptz,
  -- The HTTP status or SMTP reply code of the last try, and what went wrong, in words.
  last_status integer,
  last_error text,
  replayed_at timestamptz
);
create index notice_messages_destination on notice_messages (destination_id, id desc);
create index notice_messages_waiting on notice_messages (destination_id, next_at) where status = 'waiting';
create index notice_messages_created on notice_messages (created_at);

-- What happened, once for each destination that is told of it, and the message that it left in.
create table notices (
  id text primary key default new_id('ntc'),
  destination_id text not null references notice_destinations,
  -- Whose event it is; `platform` is nobody's.
  org_id text not null,
  kind text not null,
  event_id text,
  cost_ticket_id text,
  payload jsonb not null,
  created_at timestamptz not null default clock_timestamp(),
  -- Null: waits to be put into a message.
  message_id text references notice_messages
);
create index notices_waiting on notices (destination_id, kind, id) where message_id is null;
create index notices_destination on notices (destination_id, id desc);
create index notices_message on notices (message_id) where message_id is not null;
create index notices_ticket on notices (cost_ticket_id) where cost_ticket_id is not null;

-- Links by which somebody who is signed in decides on a ticket once. They name ticket and verdict, never a person.
create table ticket_links (
  -- SHA-256 of the 256 bits in the link.
  hash text primary key,
  ticket_id text not null references cost_tickets,
  verdict text not null check (verdict in ('approved', 'denied')),
  message_id text not null references notice_messages,
  created_at timestamptz not null default clock_timestamp(),
  -- Dead since: with its ticket, or the first use.
  ended_at timestamptz,
  used_by text
);
create index ticket_links_ticket on ticket_links (ticket_id) where ended_at is null;
create index ticket_links_message on ticket_links (message_id);

-- Keys whose end was told of.
create table expiring_keys (
  token_id text primary key references tokens on delete cascade,
  expires_at timestamptz not null
);

create trigger notice_destinations_record after insert or delete
or update of name, url, host, credentials, kinds, disabled_at, archived_at on notice_destinations for each row
execute function record_change('notice_destination', 'id');

create function open_notice_queue() returns trigger language plpgsql as $$
begin
  insert into notice_queues (destination_id) values (new.id);
  return null;
end $$;

create trigger notice_destinations_queue after insert on notice_destinations for each row execute function open_notice_queue();

-- The kind of notice that an event is; null if nobody is told of it.
create function notice_kind(p_type text, p_payload jsonb) returns text language sql immutable as $$
  select case p_type
    when 'cost_ticket.created' then 'ticket_created'
    when 'cost_ticket.resolved' then 'ticket_resolved'
    when 'wallet.balance_low' then 'balance_low'
    when 'budget.threshold' then 'budget_threshold'
    when 'payment.completed' then 'payment'
    when 'payment.failed' then 'payment'
    when 'payment.refunded' then case p_payload ->> 'cause' when 'dispute' then 'dispute' else 'refund' end
    when 'key.expiring' then 'key_expiring'
    when 'gateway.config_rejected' then 'gateway_config_rejected'
    when 'gateway.silent' then 'gateway_silent'
    when 'audit.broken' then 'audit_broken' end
$$;

-- Asks the workflow of a destination to look, once until it does. Whoever writes a notice keeps this row until the commit, so
-- that the workflow, which takes back the wish before it looks, sees the notice.
create function wake_notices(p_destination_id text) returns void language plpgsql as $$
declare
  v_is_woken boolean;
begin
  select q.is_woken into v_is_woken from notice_queues q where q.destination_id = p_destination_id for no key update;
  if not v_is_woken then
    update notice_queues q set is_woken = true where q.destination_id = p_destination_id;
    perform send_to_workflow(coalesce(d.org_id, 'platform'), 'notices', 'notices-' || d.id, 'wakeNotices',
      jsonb_build_object('destination_id', d.id))
    from notice_destinations d where d.id = p_destination_id;
  end if;
end $$;

-- Writes a notice for each destination of the event's organization, or of the platform, that is to be told of it.
create function tell_destinations() returns trigger language plpgsql as $$
declare
  v_kind text := notice_kind(new.type, new.payload);
  v_destination_id text;
begin
  for v_destination_id in
    select d.id from notice_destinations d
    where d.org_id is not distinct from nullif(new.org_id, 'platform') and v_kind = any(d.kinds)
      and d.archived_at is null and d.disabled_at is null
    order by d.id
  loop
    insert into notices (destination_id, org_id, kind, event_id, cost_ticket_id, payload)
    values (v_destination_id, new.org_id, v_kind, new.id, new.payload ->> 'cost_ticket_id', new.payload);
    perform wake_notices(v_destination_id);
  end loop;
  return null;
end $$;

create trigger events_tell after insert on events for each row
when (new.type in ('cost_ticket.created', 'cost_ticket.resolved', 'wallet.balance_low', 'budget.threshold', 'payment.completed',
  'payment.failed', 'payment.refunded', 'key.expiring', 'gateway.config_rejected', 'gateway.silent', 'audit.broken'))
execute function tell_destinations();

-- A link is good for its ticket as it is: one that opens again has links of its own.
create function end_ticket_links() returns trigger language plpgsql as $$
begin
  update ticket_links l set ended_at = clock_timestamp() where l.ticket_id = new.id and l.ended_at is null;
  return null;
end $$;

create trigger cost_tickets_end_links after update of status on cost_tickets for each row
when (old.status = 'open' and new.status <> 'open') execute function end_ticket_links();
