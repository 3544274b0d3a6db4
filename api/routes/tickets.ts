import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import * as tickets from '../../domain/ledger/tickets';
import * as verdicts from '../../domain/ledger/verdicts';
import { isPlatformAdmin } from '../../domain/people/rights';
import * as answers from '../answers/machine';
import * as shared from '../answers/shared';
import { actingOrg, ownOrg, permission } from '../http/access';
import { id, page, positiveAmount, text } from '../http/fields';
import { onceElsewhere } from '../http/idempotency';
import { type Ctx, route } from '../http/route';

const status = z.enum(['open', 'approved', 'denied', 'redeemed', 'expired']);
const listed = z.strictObject({ org_id: id.optional(), status: status.optional(), ...page });
const one = z.strictObject({ id });
const approval = z.strictObject({
  id,
  amount: positiveAmount('amount').optional(),
  wallet_id: id.optional(),
  note: text.optional(),
});
const denial = z.strictObject({ id, reason: text.optional() });

const billing = permission('org:billing');

export const ticketRoutes = [
  route({
    method: 'get',
    path: '/v1/cost-tickets',
    access: billing,
    input: listed,
    handler: list,
    summary: 'Requests that no wallet covered, newest first.',
    answer: shared.list({ tickets: answers.costTicket }),
  }),
  route({
    method: 'get',
    path: '/v1/cost-tickets/:id',
    access: billing,
    input: one,
    handler: inspect,
    summary: 'A cost ticket with what is missing in each wallet now.',
    answer: answers.costTicket,
  }),
  route({
    method: 'post',
    path: '/v1/cost-tickets/:id/approve',
    access: billing,
    input: approval,
    handler: approve,
    summary: 'Credit what is missing and hold it for the request, in one step.',
    is_idempotent: true,
    answer: answers.costTicket,
  }),
  route({
    method: 'post',
    path: '/v1/cost-tickets/:id/deny',
    access: billing,
    input: denial,
    handler: deny,
    summary: 'Refuse the request; its held call is told at once.',
    is_idempotent: true,
    answer: answers.costTicket,
  }),
];

async function list({ db, principal }: Ctx, { org_id, ...rest }: z.infer<typeof listed>) {
  const acting = await actingOrg(db, principal, org_id);
  const { rows, ...envelope } = await tickets.list(db, { org_id: acting, ...rest });
  return { tickets: rows, ...envelope };
}

function inspect({ db, principal }: Ctx, input: z.infer<typeof one>) {
  return tickets.get(db, input.id, ownOrg(principal));
}

function approve(ctx: Ctx, { amount, ...rest }: z.infer<typeof approval>) {
  return decide(ctx, { verdict: 'approved', amount_nanos: amount?.toString(), ...rest });
}

/** On the wire the note of a denial is its `reason`. */
function deny(ctx: Ctx, { reason: note, ...rest }: z.infer<typeof denial>) {
  return decide(ctx, { verdict: 'denied', note, ...rest });
}

type Decision = Pick<verdicts.Verdict, 'verdict' | 'amount_nanos' | 'wallet_id' | 'note'> & {
  id: string;
};

/** The verdict goes through the ticket's workflow, which records it and ends. */
async function decide(ctx: Ctx, { id: ticket_id, ...decision }: Decision) {
  const { db, temporal, secrets, principal } = ctx;
  const { org_id } = await tickets.get(db, ticket_id, ownOrg(principal));
  const verdict = await verdicts.signed(secrets, {
    ticket_id,
    org_id,
    ...decision,
    id: randomUUID(),
    by: principal.user_id ?? principal.id,
    is_platform: isPlatformAdmin(principal),
    valid_until: await verdicts.verdictDeadline(db),
  });
  return onceElsewhere(ctx, org_id, async () => {
    const start = { workflow: 'costTicket', workflow_id: ticket_id, org_id } as const;
    await temporal.update(start, 'decide', verdict);
    return tickets.get(db, ticket_id, org_id);
  });
}
