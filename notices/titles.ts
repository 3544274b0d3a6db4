import type { FullNotice } from '../domain/notices/full-notices';
import type { MessageKind } from '../domain/notices/kinds';

type Happened = Pick<FullNotice, 'payload' | 'claim_status' | 'ticket_status'>;

const titles: Record<MessageKind, [one: string | ((of: Happened) => string), many: string]> = {
  ticket_created: [requestTitle, 'requests wait for approval'],
  ticket_resolved: [ticketTitle, 'cost tickets are closed'],
  balance_low: ['The balance of a wallet is low', 'balances are low'],
  budget_threshold: ['A budget has reached a threshold', 'budgets have reached a threshold'],
  payment: [paymentTitle, 'payments have ended'],
  refund: [refundTitle, 'refunds have changed'],
  dispute: [disputeTitle, 'disputes have changed'],
  key_expiring: ['A key ends within a week', 'keys end within a week'],
  gateway_config_rejected: ['A gateway rejected its configuration', 'gateways rejected it'],
  gateway_silent: ['A gateway fell silent', 'gateways fell silent'],
  audit_broken: ['The proof of the ledger found a fault', 'faults were found'],
  worker_missing: ['Nobody polls a queue of the workers', 'queues of workers have no poller'],
  worker_behind: ['Work of the workers waits', 'queues of workers are behind'],
  outbox_parked: ['Messages to Temporal were given up', 'messages to Temporal were given up'],
  test: ['This is a test: notices arrive here', ''],
  confirmation: ['Confirm this address for notices', ''],
};

/**
 * The one line of a message: what has happened, and not only of what kind it is. Of a message of
 * many `notices` may be the first ones.
 */
export function titleOf(kind: MessageKind, count: number, notices: readonly Happened[]): string {
  const [one, many] = titles[kind];
  if (count > 1) {
    const is_over =
      kind === 'ticket_created' && notices.length === count && notices.every(isClosed);
    return is_over ? `${count} requests asked for approval, and none waits` : `${count} ${many}`;
  }
  const [notice = { payload: {}, claim_status: null, ticket_status: null }] = notices;
  return typeof one === 'string' ? one : one(notice);
}

/** True if the ticket of a notice needs nobody any more: it was decided or has expired since. */
export function isClosed({ ticket_status }: Pick<FullNotice, 'ticket_status'>): boolean {
  return ticket_status !== null && ticket_status !== 'open';
}

// A message may arrive long after its request has asked.
function requestTitle(notice: Happened): string {
  return isClosed(notice) ? titleOfStatus(notice.ticket_status) : 'A request waits for approval';
}

function ticketTitle({ payload: { status } }: Happened): string {
  return titleOfStatus(status);
}

function titleOfStatus(status: unknown): string {
  if (status === 'approved') return 'A cost ticket was approved';
  if (status === 'denied') return 'A cost ticket was denied';
  if (status === 'expired') return 'A cost ticket has expired';
  return status === 'redeemed' ? 'A cost ticket has paid for its call' : 'A cost ticket is closed';
}

function paymentTitle({ payload: { status } }: Happened): string {
  if (status === 'completed') return 'A payment was credited';
  return status === 'failed' ? 'A payment has failed' : 'A payment has ended';
}

function refundTitle({ payload, claim_status }: Happened): string {
  if (payload.reversed === true) return 'A refund has failed: its money is back in the wallet';
  if (claim_status === 'pending') return 'A refund of a payment is on its way';
  // A payment that went back as a whole is refunded.
  return payload.status === 'completed'
    ? 'A payment was refunded in part'
    : 'A payment was refunded';
}

function disputeTitle(of: Happened): string {
  return disputeTitles[disputeStatus(of)];
}

/**
 * Where the dispute stood when it was told of. Money that comes back was won; what is lost for good
 * had left before, so an event without a word of it is of its beginning, or of all of it at once.
 */
export function disputeStatus({ payload, claim_status }: Happened): 'opened' | 'won' | 'lost' {
  if (payload.reversed === true) return 'won';
  return payload.dispute_status === 'lost' || claim_status === 'lost' ? 'lost' : 'opened';
}

const disputeTitles = {
  opened: 'A payment is disputed: its money has left the wallet',
  won: 'A dispute is won: its money is back in the wallet',
  lost: 'A dispute is lost: its money stays away',
};
