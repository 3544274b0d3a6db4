import { z } from 'zod';
import { AppError } from '../../domain/errors';
import * as destinations from '../../domain/notices/destinations';
import * as recipients from '../../domain/notices/recipients';
import * as answers from '../answers/notices';
import { ownOrg } from '../http/access';
import { inName } from '../http/acting';
import { id } from '../http/fields';
import { type Ctx, route } from '../http/route';
import { billing } from './fields';

const added = z.strictObject({
  id,
  address: z.email('must be an e-mail address').max(254).describe('A code is mailed to it.'),
});
const one = z.strictObject({ id });
const confirmed = z.strictObject({
  id,
  code: z.string().min(1).max(100).describe('As it was mailed.'),
});

export const noticeRecipientRoutes = [
  route({
    method: 'post',
    path: '/v1/notice-destinations/:id/recipients',
    access: billing,
    input: added,
    handler: add,
    is_recorded: true,
    status: 201,
    summary:
      'Add an address to a mail destination: a code is mailed to it, and notices once that is confirmed. Again: another code.',
    answer: answers.noticeRecipient,
  }),
  route({
    method: 'post',
    path: '/v1/notice-recipients/:id/confirm',
    access: billing,
    input: confirmed,
    handler: confirm,
    summary: 'Confirm an address by the code that was mailed to it.',
    answer: answers.noticeRecipient,
  }),
  route({
    method: 'delete',
    path: '/v1/notice-recipients/:id',
    access: billing,
    input: one,
    handler: remove,
    is_recorded: true,
    summary: 'Mail nothing more to an address.',
    answer: answers.noticeRecipient,
  }),
];

async function find({ db, principal }: Ctx, destination_id: string) {
  const found = await destinations.get(db, destination_id, ownOrg(principal) ?? undefined);
  if (found.channel === 'email') return found;
  throw new AppError('invalid_field', 'Only a destination of mail has recipients.', {
    param: 'id',
  });
}

async function add(ctx: Ctx, { id: destination_id, address }: z.infer<typeof added>) {
  await find(ctx, destination_id);
  return recipients.add(ctx.db, destination_id, address);
}

async function remove({ db, principal }: Ctx, input: z.infer<typeof one>) {
  return recipients.remove(db, input.id, ownOrg(principal) ?? undefined);
}

async function confirm(ctx: Ctx, given: z.infer<typeof confirmed>) {
  const owner = ownOrg(ctx.principal) ?? undefined;
  // A wrong code is counted, so the refusal comes after the commit.
  const done = await inName(ctx, (trx) => recipients.confirm(trx, ctx.secrets, owner, given));
  if (done) return done;
  throw new AppError('invalid_field', 'This is not the code that was mailed.', { param: 'code' });
}
