import { Webhook } from 'standardwebhooks';
import type { FullNotice } from '../domain/notices/full-notices';
import type { MessageKind } from '../domain/notices/kinds';
import { toWire } from '../runtime/wire';

export interface WebhookMessage {
  id: string;
  kind: MessageKind;
  created_at: Date;
  notice_count: number;
  notices: readonly FullNotice[];
  /** The address of a ticket, or of the inbox; null if the operator names none of the API. */
  urlOf: (ticket_id?: string) => string | null;
}

/** What is posted: a message of the Standard Webhooks form, signed for this moment. */
export function webhookPost(secret: string, message: WebhookMessage, now: Date) {
  const { id, kind, created_at, notice_count, notices, urlOf } = message;
  const body = JSON.stringify({
    type: kind,
    timestamp: created_at.toISOString(),
    data: {
      message_id: id,
      count: notice_count,
      // The rest of a burst is listed by its message.
      truncated: notices.length < notice_count,
      inbox_url: urlOf(),
      notices: notices.map((notice) => ({
        id: notice.id,
        org_id: notice.org_id,
        event_id: notice.event_id,
        cost_ticket_id: notice.cost_ticket_id,
        created_at: notice.created_at.toISOString(),
        url: notice.cost_ticket_id === null ? null : urlOf(notice.cost_ticket_id),
        details: toWire(notice.payload),
      })),
    },
  });
  const headers = {
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
    'webhook-signature': new Webhook(secret).sign(id, now, body),
  };
  return { body, headers };
}
