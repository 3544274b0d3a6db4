import * as questions from '../domain/payments/questions';
import * as refunds from '../domain/payments/refunds';
import type { Called, Progress } from '../domain/payments/steps';
import * as steps from '../domain/payments/steps';
import { type Db, withRetry } from '../domain/sql';
import type { ProviderOf } from '../payment-providers/configured';
import {
  isProviderRefusal,
  type PaymentProvider,
  type PaymentReport,
} from '../payment-providers/provider';
import { isDefinite, troubleOf, UnknownThere } from './provider-answers';
import { sendRefund } from './refunds';

/** Why the provider is asked: somebody says that the buyer has paid, a webhook, or the clock. */
type Reason = 'confirm' | 'news' | 'clock';

interface Look {
  reason: Reason;
  /** A webhook is waiting too: then all is asked, since something may have gone back. */
  has_news?: boolean;
}

interface Ref {
  payment_session_id: string;
}

/** The steps of payments. Each can be run again at any time: the row says what is done already. */
export function createPaymentSteps(db: Db, providerOf: ProviderOf) {
  return {
    /** Makes the checkout at the provider if there is none; fails the session on a definite no. */
    async openCheckout({ payment_session_id: id }: Ref): Promise<Progress> {
      await open(db, providerOf, id);
      return steps.progress(db, id);
    },
    /**
     * Asks the provider how the payment stands, takes the money if the buyer approved it, records
     * and credits it.
     */
    async collectPayment({ payment_session_id: id, ...look }: Ref & Look) {
      await collect(db, providerOf, { id, ...look });
      return steps.progress(db, id);
    },
    /** Credits the wallet, once. */
    async creditPayment({ payment_session_id: id }: Ref): Promise<Progress> {
      await withRetry(() => steps.credit(db, id));
      return steps.progress(db, id);
    },
    /**
     * Ends a session at the buyer's wish, at the provider too; one that is being paid stays as it
     * is.
     */
    async cancelPayment({ payment_session_id: id }: Ref): Promise<Progress> {
      await cancel(db, providerOf, id);
      return steps.progress(db, id);
    },
    /** Takes a refund from the wallet; refused if the credit is spent. */
    async debitRefund({ payment_refund_id: id }: { payment_refund_id: string }) {
      await withRetry(() => refunds.debit(db, id));
    },
    /**
     * Asks the provider for the refund, or how it stands; a definite no gives the money back to the
     * wallet.
     */
    async sendRefund({ payment_refund_id: id }: { payment_refund_id: string }) {
      await sendRefund(db, providerOf, id);
      return refunds.progress(db, id);
    },
  };
}

const OPEN_TRIES = 2;

/** A failed checkout is tried once more at once, then when the buyer or the clock asks again. */
async function open(db: Db, providerOf: ProviderOf, id: string): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    const { status: before, provider_order_id } = await steps.placeOf(db, id);
    if (before !== 'created' || provider_order_id !== null) return;
    const session = await withRetry(() => steps.begin(db, id, { is_capture: false }));
    const { asked } = session;
    if (session.is_overdue) return close(db, providerOf, id, expired);
    try {
      const status = await steps.opened(db, id, await makeCheckout(providerOf, session));
      // Canceled while it was made: nobody is to pay it.
      return status === 'created' ? undefined : expireThere(db, providerOf, id);
    } catch (error) {
      const message = troubleOf(error);
      if (isDefinite(error))
        return void (await steps.close(db, id, { ...refused, provider_message: message }));
      if (attempt === OPEN_TRIES) return questions.unanswered(db, id, { message, asked });
    }
  }
}

async function makeCheckout(providerOf: ProviderOf, session: Called) {
  const { id, amount_nanos, currency, description, return_url, cancel_url } = session;
  const provider = await providerOf(session.provider);
  return provider.createCheckout({
    payment_session_id: id,
    amount_nanos,
    currency,
    description,
    return_url,
    cancel_url,
    key: keyOf(session),
    expires_at: session.provider_expires_at,
  });
}

const canceled = {
  to: 'canceled',
  error_code: 'canceled_by_buyer',
  error_message: 'Canceled by the buyer.',
} as const;
const expired = {
  to: 'expired',
  error_code: 'session_expired',
  error_message: 'The buyer did not pay in time. Create a new checkout.',
} as const;
const refused = {
  to: 'failed',
  error_code: 'provider_error',
  error_message: 'The payment provider refused this payment. A platform admin sees why.',
} as const;

/**
 * A provider may repeat its own failure under one key, so every second call has a new one.
 * Harmless: an order that nobody was shown cannot be paid, and an order is captured once whatever
 * the key.
 */
function keyOf({ id, reading }: Pick<Called, 'id' | 'reading'>): string {
  return `${id}-${Math.ceil(reading / 2)}`;
}

async function collect(
  db: Db,
  providerOf: ProviderOf,
  { id, reason, has_news = false }: Look & { id: string },
): Promise<void> {
  // Timers are set again each day; a payment that needs no more questions waits for news.
  if (reason === 'clock' && !(await steps.isDue(db, id))) return;
  const session = await withRetry(() => steps.begin(db, id, { is_capture: false }));
  const { provider_order_id: order_id, is_overdue } = session;
  if (order_id === null) return is_overdue ? close(db, providerOf, id, expired) : undefined;
  const asked = reason === 'confirm' ? session.asked : undefined;
  try {
    const provider = await providerOf(session.provider);
    const isFresh = reason === 'confirm' && !has_news && session.is_fresh;
    const report = await provider.read(order_id, { isFresh });
    if (report.status === 'gone' && !(is_overdue && session.status === 'created'))
      throw new UnknownThere();
    const taken = isToBeTaken(session, report, reason)
      ? await take(db, provider, { id, order_id, report })
      : { report, reading: session.reading };
    const status = await withRetry(() => steps.record(db, id, taken.report, { ...taken, asked }));
    // Its own transaction: the capture stays recorded even if the credit cannot be written now.
    if (status === 'captured') await withRetry(() => steps.credit(db, id));
    const isOnItsWay = taken.report.status === 'captured' || taken.report.status === 'pending';
    if (is_overdue && !isOnItsWay) await close(db, providerOf, id, expired);
  } catch (error) {
    const is_gone = error instanceof UnknownThere;
    await withRetry(() =>
      questions.unanswered(db, id, { message: troubleOf(error), is_gone, asked }),
    );
  }
}

/**
 * Nothing is taken once a session has ended: then only what the provider took by itself counts. A
 * declined payment is taken again only if its buyer is there, who may have paid another way
 * meanwhile.
 */
function isToBeTaken(session: Called, { status }: PaymentReport, reason: Reason): boolean {
  if (session.status !== 'created' && session.status !== 'capturing') return false;
  if (status === 'open') return reason === 'confirm';
  return status === 'approved' && !(reason === 'clock' && session.error_code === 'declined');
}

interface Taken {
  report: PaymentReport;
  reading: number;
  is_asked?: boolean;
}

/** Takes an approved payment; one that is still open is only found to be not approved. */
async function take(
  db: Db,
  provider: PaymentProvider,
  wanted: { id: string; order_id: string; report: PaymentReport; used?: string },
): Promise<Taken> {
  const { id, order_id, report, used } = wanted;
  const session = await withRetry(() => steps.begin(db, id, { is_capture: true }));
  const { reading, capture_key } = session;
  const is_asked = true;
  if (report.status !== 'approved' || session.status !== 'capturing')
    return { report, reading, is_asked };
  const next = keyOf(session);
  const key = capture_key ?? (next === used ? keyOf({ id, reading: reading + 2 }) : next);
  try {
    return { report: await provider.capture(order_id, key), reading };
  } catch (error) {
    // Without an answer, a capture that was under way still is. Kept before anything else is asked.
    const isUnderWay = isProviderRefusal(error)
      ? error.code === 'in_progress'
      : capture_key !== null;
    if (isUnderWay !== (capture_key !== null))
      await questions.holdCaptureKey(db, id, isUnderWay ? key : null);
    // Refused or without an answer: how the order stands decides, and only its own end is one.
    const after = await provider.read(order_id);
    if (after.status === 'gone') throw new UnknownThere();
    const isStill = after.status === 'open' || after.status === 'approved';
    if (!isStill || !isProviderRefusal(error)) return { report: after, reading };
    if (error.code === 'declined') return { report: { ...after, status: 'declined' }, reading };
    if (error.code === 'not_approved' || after.status === 'open')
      return { report: { ...after, status: 'open' }, reading, is_asked };
    if (error.code === 'key_used' && used === undefined)
      return take(db, provider, { ...wanted, report: after, used: key });
    // Taken to be neither done nor over: it is asked for again.
    throw error;
  }
}

/**
 * Ends a session here, then its checkout at the provider. If that fails it ends there by itself,
 * and is asked for.
 */
async function close(db: Db, providerOf: ProviderOf, id: string, end: steps.End): Promise<void> {
  const status = await withRetry(() => steps.close(db, id, end));
  if (status === end.to) await expireThere(db, providerOf, id);
}

/**
 * Cancels a session that nobody is paying. The provider is asked first, as a voucher may be out or
 * the money taken without our knowledge. If it does not answer, the session is canceled all the
 * same.
 */
async function cancel(db: Db, providerOf: ProviderOf, id: string): Promise<void> {
  const { status, provider_order_id } = await steps.placeOf(db, id);
  if (status === 'created' && provider_order_id !== null) {
    const session = await withRetry(() => steps.begin(db, id, { is_capture: false }));
    try {
      const report = await (await providerOf(session.provider)).read(provider_order_id);
      const after = await withRetry(() =>
        steps.record(db, id, report, { reading: session.reading }),
      );
      if (after === 'captured') await withRetry(() => steps.credit(db, id));
    } catch (error) {
      await withRetry(() => questions.unanswered(db, id, { message: troubleOf(error) }));
    }
  }
  await close(db, providerOf, id, canceled);
}

async function expireThere(db: Db, providerOf: ProviderOf, id: string): Promise<void> {
  const { provider, provider_order_id } = await steps.placeOf(db, id);
  if (provider_order_id === null) return;
  try {
    await (await providerOf(provider)).expire(provider_order_id);
  } catch (error) {
    await questions.unanswered(db, id, { message: troubleOf(error) });
  }
}
