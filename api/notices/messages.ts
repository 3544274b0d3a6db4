import { z } from 'zod';
import * as byHand from '../../domain/notices/by-hand';
import * as messages from '../../domain/notices/messages';
import * as answers from '../answers/notices';
import * as shared from '../answers/shared';
import { ownerOf, ownOrg } from '../http/access';
import { id, page } from '../http/fields';
import { type Ctx, route } from '../http/route';
import { billing } from './fields';

const listed = z.strictObject({
  org_id: id.optional(),
  destination_id: id.optional(),
  status: z.enum(['waiting', 'delivered', 'failed']).optional(),
  ...page,
});
const noticesListed = z.strictObject({
  org_id: id.optional(),
  destination_id: id.optional(),
  message_id: id.optional().describe('Those that left in this message.'),
  cost_ticket_id: id.optional(),
  ...page,
});
const one = z.strictObject({ id });

export const noticeMessageRoutes = [
  route({
    method: 'get',
    path: '/v1/notice-messages',
    access: billing,
    input: listed,
    handler: list,
    summary: 'The log of messages to destinations, newest first, each with how its last try went.',
    answer: shared.list({ messages: answers.noticeMessage }),
  }),
  route({
    method: 'get',
    path: '/v1/notice-messages/:id',
    access: billing,
    input: one,
    handler: ({ db, principal }: Ctx, input) =>
      messages.get(db, input.id, ownOrg(principal) ?? undefined),
    summary: 'A message, and how its last try went.',
    answer: answers.noticeMessage,
  }),
  route({
    method: 'post',
    path: '/v1/notice-messages/:id/replay',
    access: billing,
    input: one,
    handler: ({ db, principal }: Ctx, input) =>
      byHand.replay(db, input.id, ownOrg(principal) ?? undefined),
    is_recorded: true,
    summary: 'Send a message once more, whether it arrived or not.',
    answer: answers.noticeMessage,
  }),
  route({
    method: 'get',
    path: '/v1/notices',
    access: billing,
    input: noticesListed,
    handler: listNotices,
    summary: 'What destinations are told of, newest first, each with the message that it left in.',
    answer: shared.list({ notices: answers.notice }),
  }),
];

async function list(
  ctx: Ctx,
  { org_id, destination_id, status, ...window }: z.infer<typeof listed>,
) {
  const owner = await ownerOf(ctx, org_id);
  const { rows, ...rest } = await messages.list(ctx.db, owner, { destination_id, status }, window);
  return { messages: rows, ...rest };
}

async function listNotices(ctx: Ctx, { org_id, ...given }: z.infer<typeof noticesListed>) {
  const owner = await ownerOf(ctx, org_id);
  const { rows, ...rest } = await messages.listNotices(ctx.db, owner, given, given);
  return { notices: rows, ...rest };
}
