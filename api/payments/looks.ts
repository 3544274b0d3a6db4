import * as cancellation from '../../domain/payments/cancellation';
import * as questions from '../../domain/payments/questions';
import * as payments from '../../domain/payments/sessions';
import * as steps from '../../domain/payments/steps';
import type { UpdateOptions } from '../../temporal/client';
import type { Ctx } from '../http/route';

// After one of these states a webhook reports changes, or the session's own looks find them.
export const terminal: readonly payments.SessionStatus[] = [
  'completed',
  'refunded',
  'canceled',
  'expired',
  'failed',
];

/** A session is looked at for those who confirm it at most once in this time. */
const LOOK_PAUSE_S = 2;

/**
 * Lets the session's workflow ask the provider, and waits for the result. A payment that has ended
 * is answered as it stands.
 */
export async function settle(ctx: Ctx, { id: session_id, org_id }: payments.Session) {
  const { status } = await payments.approvalOf(ctx.db, session_id);
  if (terminal.includes(status)) return;
  // All that confirm at one time wait for one look at the provider; so soon after one, the row says
  // what it found.
  const asked = await questions.ask(ctx.db, session_id, { pause_s: LOOK_PAUSE_S });
  if (asked === undefined) return;
  const options = {
    update_id: `confirm-${asked}`,
    isResultNeeded: false,
    isDone: async () => terminal.includes((await payments.approvalOf(ctx.db, session_id)).status),
  };
  await message(ctx, { org_id, session_id }, 'confirm', options);
}

/** A message to the session's workflow, which is started if it does not run. */
export async function message(
  { db, temporal, secrets }: Ctx,
  { org_id, session_id }: { org_id: string; session_id: string },
  name: 'approval' | 'confirm' | 'cancel',
  options: UpdateOptions = {},
): Promise<void> {
  const input =
    name === 'cancel'
      ? await cancellation.sign(db, secrets, session_id)
      : { payment_session_id: session_id };
  const start = { workflow: 'paymentSession', workflow_id: session_id, org_id } as const;
  const isUnderWay = () => steps.isUnderWay(db, session_id);
  await temporal.update(start, name, input, { isUnderWay, ...options });
}
