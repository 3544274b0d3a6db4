import { randomUUID } from 'node:crypto';
import { type Db, one } from '../../domain/sql';
import type { Tenant } from '../support/api';
import type { Change } from './changes-of-keys';

/** A mail destination; nobody sends to it here. */
export async function newDestination(db: Db, { org_id }: Tenant): Promise<string> {
  const { id } = await one<{ id: string }>(
    db,
    `insert into notice_destinations (org_id, name, channel, kinds, created_by)
     values (:org_id, 'Mail', 'email', '{ticket_created}', 'key_x') returning id`,
    { org_id },
  );
  return id;
}

/** A message to it that arrived. */
export async function newMessage(db: Db, tenant: Tenant): Promise<string> {
  const { id } = await one<{ id: string }>(
    db,
    `insert into notice_messages (destination_id, kind, notice_count, status) values (:destination_id, 'test', 0, 'delivered') returning id`,
    { destination_id: await newDestination(db, tenant) },
  );
  return id;
}

/** The changes of what people are told of. */
export function changesOfNotices(db: Db, tenant: Tenant): Record<string, Change> {
  const destination = () => newDestination(db, tenant);
  return {
    'delete /v1/notice-destinations/:id': {
      of: destination,
      actions: ['notice_destination.ended'],
    },
    'post /v1/notice-destinations/:id/recipients': {
      of: destination,
      body: async () => ({ address: `${randomUUID()}@example.com` }),
      actions: ['notice_recipient.created'],
    },
    'delete /v1/notice-recipients/:id': {
      of: async () => {
        const { id } = await one<{ id: string }>(
          db,
          `insert into notice_recipients (destination_id, address) values (:destination_id, 'a@example.com') returning id`,
          { destination_id: await destination() },
        );
        return id;
      },
      actions: ['notice_recipient.ended'],
    },
    'post /v1/notice-messages/:id/replay': {
      of: () => newMessage(db, tenant),
      actions: ['notice_message.replayed'],
    },
  };
}

/** Bodies of the other routes, none of which changes anything. */
export const noticeBodies: Record<string, () => Promise<object>> = {
  // Nothing inside a network is listed here.
  'post /v1/notice-destinations': async () => ({
    name: 'N',
    channel: 'webhook',
    url: 'https://127.0.0.1/hook',
  }),
  'post /v1/notice-recipients/:id/confirm': async () => ({ code: 'x' }),
  'post /v1/ticket-links/look': async () => ({ link: 'a'.repeat(43) }),
  'post /v1/ticket-links/decide': async () => ({ link: 'a'.repeat(43), nonce: 'unknown' }),
};
