import { z } from 'zod';
import { requireKnown } from '../../domain/known';
import * as byHand from '../../domain/notices/by-hand';
import * as lists from '../../domain/notices/lists';
import * as messages from '../../domain/notices/messages';
import * as answers from '../answers/notices';
import * as shared from '../answers/shared';
import { ownerOf, ownOrg } from '../http/access';
import { id, listParts } from '../http/fields';
import { type Ctx, route } from '../http/route';
import { billing } from './fields';

const listed = z.strictObject({
  org_id: id.optional(),
  destination_id: id.optional(),
  status: z.enum(['waiting', 'delivered', 'failed']).optional(),
  ...listParts(),
});
const noticesListed = z.strictObject({
  org_id: id.optional(),
  destination_id: id.optional(),
  message_id: id.optional().describe('Those that left in this message.'),
  cost_ticket_id: id.optional(),
  ...listParts(),
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
    answer: shared.parts({ messages: answers.noticeMessage }),
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
    answer: shared.parts({ notices: answers.notice }),
  }),
];

async function list(
  ctx: Ctx,
  { org_id, destination_id, status, ...request }: z.infer<typeof listed>,
) {
  const owner = await ownerOf(ctx, org_id);
  await requireKnown(ctx.db, owner, { destination_id });
  const { rows, ...rest } = await lists.messages(
    ctx.db,
    owner,
    { destination_id, status },
    request,
  );
  return { messages: rows, ...rest };
}

async function listNotices(
  ctx: Ctx,
  { org_id, destination_id, message_id, cost_ticket_id, ...request }: z.infer<typeof noticesListed>,
) {
  const owner = await ownerOf(ctx, org_id);
  const filter = { destination_id, message_id, cost_ticket_id };
  await requireKnown(ctx.db, owner, filter);
  const { rows, ...rest } = await lists.notices(ctx.db, owner, filter, request);
  return { notices: rows, ...rest };
}
