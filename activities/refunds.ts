import * as refunds from '../domain/payments/refunds';
import * as steps from '../domain/payments/steps';
import { type Db, withRetry } from '../domain/sql';
import type { ProviderOf } from '../payment-providers/configured';
import type { PaymentProvider, ReportedRefund } from '../payment-providers/provider';
import { isDefinite, troubleOf, UnknownThere } from './provider-answers';

/**
 * Asks the provider for a refund, or how it stands; a definite no gives the money back. Where the
 * provider does not know the payment, a no says nothing of a refund that it was asked for before:
 * that may have been another account of ours.
 */
export async function sendRefund(db: Db, providerOf: ProviderOf, id: string): Promise<void> {
  const first = await refunds.get(db, id);
  // Known to the provider, and past its last check: left alone until news come.
  const isLeftAlone = first.provider_refund_id !== null && first.wait_ms === null;
  if (first.status !== 'pending' || isLeftAlone) return;
  const provider = await providerOf(first.provider);
  let isAsked = false;
  let isUnclear = false;
  try {
    const seen = await look(db, provider, first).catch(unlessUnknown);
    const refund = seen ?? first;
    if (refund.status !== 'pending') return;
    const { provider_refund_id: known } = refund;
    // A refund that the provider knows already is not requested again.
    if (seen && known) return record(db, id, { status: 'pending', provider_refund_id: known });
    const was_asked = await withRetry(() => refunds.ask(db, id));
    isUnclear = was_asked && seen === undefined;
    isAsked = true;
    const { provider_order_id: order_id, provider_capture_id: capture_id } = refund;
    const { amount_nanos, currency } = refund;
    const answer = await provider.refund({
      payment_refund_id: id,
      order_id,
      capture_id,
      amount_nanos,
      currency,
    });
    await record(db, id, answer);
  } catch (error) {
    const message = troubleOf(error);
    // Only the refund itself can be refused: that it cannot be looked at says nothing.
    const no = isAsked && isDefinite(error) && !isUnclear;
    // Without an answer it may have been made; refused, the money may have gone back another way.
    // Then the wallet follows that.
    if (no) await look(db, provider, first).catch(unlessUnknown);
    else if (isAsked) await look(db, provider, first).catch(() => undefined);
    const status = no ? 'failed' : 'pending';
    await withRetry(() => refunds.record(db, id, { status, provider_refund_id: null, message }));
  }
}

function unlessUnknown(error: unknown): undefined {
  if (!(error instanceof UnknownThere)) throw error;
}

function record(
  db: Db,
  id: string,
  { status, provider_refund_id }: Pick<ReportedRefund, 'status' | 'provider_refund_id'>,
): Promise<void> {
  return withRetry(() => refunds.record(db, id, { status, provider_refund_id, message: null }));
}

/** Records what the provider says of the payment's refunds; how ours stands after it. */
async function look(
  db: Db,
  provider: PaymentProvider,
  { id, payment_session_id, provider_order_id }: refunds.Refund,
): Promise<refunds.Refund> {
  const { reading } = await withRetry(() =>
    steps.begin(db, payment_session_id, { is_capture: false }),
  );
  const report = await provider.read(provider_order_id);
  if (report.status === 'gone') throw new UnknownThere();
  await withRetry(() => steps.record(db, payment_session_id, report, { reading }));
  return refunds.get(db, id);
}
