import { z } from 'zod';
import type { Destination, Recipient } from '../../domain/notices/destinations';
import {
  channels,
  message_kinds,
  organization_kinds,
  platform_kinds,
} from '../../domain/notices/kinds';
import type { Message, Notice } from '../../domain/notices/messages';
import type { Wire } from '../../runtime/wire';
import type { Members } from '../http/fields';
import { costTicket } from './machine';
import { id, time } from './shared';

const kind = z.enum([...organization_kinds, ...platform_kinds]);

/** Somebody whom a mail destination writes to. */
export const noticeRecipient = z.strictObject({
  id,
  address: z.string(),
  confirmed_at: time.nullable().describe('Null: nothing but the code is mailed to it.'),
} satisfies Members<Wire<Recipient>>);

const members = {
  id,
  org_id: id.nullable().describe("Null: the platform's."),
  name: z.string(),
  channel: z.enum(channels),
  url: z.string().nullable().describe('Of a webhook. That of Slack or Teams is a secret.'),
  host: z.string().nullable(),
  kinds: z.array(kind),
  recipients: z.array(noticeRecipient),
  created_by: id,
  created_at: time,
  disabled_at: time.nullable().describe('Nothing is sent there since.'),
  disabled_reason: z.string().nullable(),
} satisfies Members<Wire<Destination>>;

/** A destination of notices. */
export const noticeDestination = z.strictObject(members);

/** The same as it is made. */
export const newNoticeDestination = z.strictObject({
  ...members,
  secret: z.string().nullable().describe('By which a webhook verifies messages; shown once.'),
});

/** A message and how it fares. */
export const noticeMessage = z.strictObject({
  id,
  destination_id: id,
  kind: z.enum(message_kinds),
  notice_count: z.int().describe('How many notices it carries.'),
  status: z.enum(['waiting', 'delivered', 'failed']).describe('failed: given up.'),
  attempts: z.int(),
  next_at: time.nullable().describe('When it is tried next.'),
  created_at: time,
  attempted_at: time.nullable(),
  delivered_at: time.nullable(),
  last_status: z.int().nullable().describe('HTTP status or SMTP reply code of the last try.'),
  last_error: z.string().nullable().describe('What went wrong at the last try.'),
  replayed_at: time.nullable().describe('When somebody last asked to send it once more.'),
} satisfies Members<Wire<Message>>);

/** What happened, for one destination. */
export const notice = z.strictObject({
  id,
  destination_id: id,
  org_id: id,
  kind,
  event_id: id.nullable(),
  cost_ticket_id: id.nullable(),
  created_at: time,
  message_id: id.nullable().describe('The message that it left in; null while it waits for one.'),
  decided_by: id.nullable().describe('Who decided on its ticket, if somebody has.'),
} satisfies Members<Wire<Notice>>);

const linked = {
  ticket: costTicket,
  verdict: z.enum(['approved', 'denied']).describe('What the link is for.'),
};

/** A one-time link and its ticket. */
export const ticketLink = z.strictObject({
  ...linked,
  is_dead: z.boolean().describe('It was used, or its ticket is closed.'),
});

/** What came of a one-time link. */
export const usedTicketLink = z.strictObject({
  ...linked,
  is_first: z.boolean().describe('false: the ticket was decided before, as it says.'),
});
