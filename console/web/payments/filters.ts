import { dayShape } from '../fields/day-range';
import { oneOf, text, useFilters } from '../fields/filters';
import { statuses } from './words';

/** What the address of the page of payments says. */
export const paymentShape = {
  tab: oneOf('payments', 'failed', 'webhooks', 'providers'),
  status: oneOf(...statuses),
  ...dayShape,
  news: oneOf('unmatched', 'sent', 'ignored', 'all'),
  cursor: text,
};

export function usePaymentFilters() {
  return useFilters(paymentShape);
}

export type PaymentFilters = ReturnType<typeof usePaymentFilters>[0];
export type SetPaymentFilters = ReturnType<typeof usePaymentFilters>[1];
