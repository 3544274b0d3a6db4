import { Refusal } from '../api/client';
import { moneyText } from '../parts/money';

/** A refusal of a refund in words for people; the server's are for programs too. */
export function wordsOfRefusal(refusal: unknown, currency: string): unknown {
  if (!(refusal instanceof Refusal) || refusal.code !== 'credit_spent') return refusal;
  const spent = moneyText(Number(refusal.details.spent_amount), currency);
  const message = `Nothing was refunded: ${spent} of this top-up has been spent.`;
  return new Refusal(refusal.status, {
    error: { ...refusal.details, message },
    request_id: refusal.request_id,
  });
}
