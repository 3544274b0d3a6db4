import { z } from 'zod';
import { isAppError } from '../../domain/errors';
import * as links from '../../domain/notices/links';
import * as answers from '../answers/notices';
import { actorOf, member } from '../http/access';
import { id, text } from '../http/fields';
import { type Ctx, route } from '../http/route';
import { decideNow, find } from './tickets';

const link = z
  .string()
  .regex(/^[\w-]{43}$/, 'must be the end of a link in a notice')
  .describe('What stands behind #link= in the notice.');
const looked = z.strictObject({ link });
const decided = z.strictObject({
  link,
  nonce: z.string().min(1).max(200).describe('Of the page /approvals.'),
  wallet_id: id.optional(),
  from_wallet_id: id.optional(),
  note: text.optional(),
});

export const ticketLinkRoutes = [
  route({
    method: 'post',
    path: '/v1/ticket-links/look',
    access: member,
    input: looked,
    handler: look,
    summary: 'The ticket of a one-time link, for whoever may see that ticket; decides nothing.',
    answer: answers.ticketLink,
  }),
  route({
    method: 'post',
    path: '/v1/ticket-links/decide',
    access: member,
    input: decided,
    handler: use,
    summary:
      'Give the ticket of a one-time link its verdict, in your own name and by your own right. A ticket that was decided before is answered as it is.',
    answer: answers.usedTicketLink,
  }),
];

async function look(ctx: Ctx, given: z.infer<typeof looked>) {
  const { ticket_id, verdict, is_dead } = await links.find(ctx.db, given.link);
  const { ticket } = await find(ctx, ticket_id);
  return { ticket, verdict, is_dead };
}

async function use(ctx: Ctx, given: z.infer<typeof decided>) {
  const { db, principal, secrets } = ctx;
  await links.requireNonce(secrets, given.nonce, Date.now());
  const { ticket_id, verdict, is_dead } = await links.find(db, given.link);
  const before = async () => ({
    ticket: (await find(ctx, ticket_id)).ticket,
    verdict,
    is_first: false,
  });
  if (is_dead) return before();
  const { wallet_id, from_wallet_id, note } = given;
  try {
    const ticket = await decideNow(ctx, {
      id: ticket_id,
      verdict,
      wallet_id,
      from_wallet_id,
      note,
    });
    const by = actorOf(principal);
    // Of two who say the same at once, it is the verdict of one.
    const is_first = ticket.decided_by === by && (await links.use(db, given.link, by));
    return { ticket, verdict, is_first };
  } catch (error) {
    // Somebody else was faster: that answer is shown.
    const is_late = isAppError(error) && (await links.find(db, given.link)).is_dead;
    if (is_late) return before();
    throw error;
  }
}
