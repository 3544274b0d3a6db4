import type { AnyColumn } from '../base/csv';
import { decimalText } from '../base/decimals';
import type { AdminPayment, Listed } from './words';

/** What a file says of payments. */
export const paymentCsv: AnyColumn<Listed>[] = [
  { title: 'id', text: ({ id }) => id },
  { title: 'created_at', text: ({ created_at }) => created_at },
  { title: 'amount', text: ({ amount }) => decimalText(amount) },
  { title: 'currency', text: ({ currency }) => currency },
  { title: 'status', text: ({ status }) => status },
  { title: 'user_id', text: ({ user_id }) => user_id },
  { title: 'user_name', name_of: ({ user_id }) => user_id },
  { title: 'provider', text: ({ provider }) => provider },
  { title: 'wallet_id', text: ({ wallet_id }) => wallet_id },
  { title: 'wallet_of', name_of: ({ wallet_id }) => wallet_id },
  { title: 'credited_amount', text: ({ credited_amount }) => decimalText(credited_amount) },
  { title: 'refunded_amount', text: ({ refunded_amount }) => decimalText(refunded_amount) },
  { title: 'refund_status', text: ({ refund_status }) => refund_status },
  { title: 'provider_order_id', text: ({ provider_order_id }) => provider_order_id },
];

type Admin = AdminPayment;

/** The same for operators, with whose they are and what the provider took. */
export const adminPaymentCsv: AnyColumn<Admin>[] = [
  ...(paymentCsv as AnyColumn<Admin>[]),
  { title: 'org_id', text: ({ org_id }) => org_id },
  { title: 'org_name', name_of: ({ org_id }) => org_id },
  { title: 'provider_capture_id', text: ({ provider_capture_id }) => provider_capture_id },
  {
    title: 'captured_amount',
    text: ({ captured_amount }) => (captured_amount === null ? null : decimalText(captured_amount)),
  },
  { title: 'captured_currency', text: ({ captured_currency }) => captured_currency },
  { title: 'open_disputes', text: ({ open_disputes }) => String(open_disputes) },
  { title: 'error_code', text: ({ error_code }) => error_code },
  { title: 'resolution', text: ({ resolution }) => resolution },
  { title: 'updated_at', text: ({ updated_at }) => updated_at },
];
