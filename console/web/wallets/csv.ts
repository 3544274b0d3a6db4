import type { Answer } from '../api/client';
import type { AnyColumn, CsvColumn } from '../base/csv';
import { decimalText } from '../base/decimals';
import { standing, type WalletRow } from './words';

export type Entry = Answer<'GET /api/wallets/:id/transactions'>['transactions'][number];

const amountText = (amount: number | null) => (amount === null ? null : decimalText(amount));
const countText = (count: number | null) => (count === null ? null : String(count));

/** What a file says of the entries of a ledger, newest first. */
export function ledgerCsv(currency: string): AnyColumn<Entry>[] {
  return [
    { title: 'id', text: ({ id }) => id },
    { title: 'seq', text: ({ seq }) => String(seq) },
    { title: 'created_at', text: ({ created_at }) => created_at },
    { title: 'type', text: ({ type }) => type },
    { title: 'phase', text: ({ phase }) => phase },
    { title: 'amount', text: ({ amount }) => decimalText(amount) },
    { title: 'balance_after', text: ({ balance_after }) => decimalText(balance_after) },
    { title: 'actual_cost', text: ({ actual_cost }) => amountText(actual_cost) },
    { title: 'currency', text: () => currency },
    { title: 'provider', text: ({ provider }) => provider },
    { title: 'model', text: ({ model }) => model },
    { title: 'prompt_tokens', text: ({ prompt_tokens }) => countText(prompt_tokens) },
    { title: 'completion_tokens', text: ({ completion_tokens }) => countText(completion_tokens) },
    { title: 'cached_tokens', text: ({ cached_tokens }) => countText(cached_tokens) },
    { title: 'user_id', text: ({ user_id }) => user_id },
    { title: 'user_name', name_of: ({ user_id }) => user_id },
    { title: 'team_id', text: ({ team_id }) => team_id },
    { title: 'team_name', name_of: ({ team_id }) => team_id },
    { title: 'agent_id', text: ({ agent_id }) => agent_id },
    { title: 'key_id', text: ({ key_id }) => key_id },
    { title: 'actor', text: ({ actor }) => actor },
    { title: 'description', text: ({ description }) => description },
    { title: 'tags', text: ({ tags }) => tags?.join(' ') ?? null },
    { title: 'request_id', text: ({ request_id }) => request_id },
    { title: 'reservation_id', text: ({ reservation_id }) => reservation_id },
    { title: 'transfer_id', text: ({ transfer_id }) => transfer_id },
    { title: 'payment_session_id', text: ({ payment_session_id }) => payment_session_id },
    {
      title: 'cost_ticket_id',
      text: ({ cost_ticket_id, approval }) => approval?.cost_ticket_id ?? cost_ticket_id,
    },
    { title: 'counterpart_wallet_id', text: ({ counterpart }) => counterpart?.wallet_id ?? null },
    { title: 'counterpart_name', text: ({ counterpart }) => counterpart?.owner_name ?? null },
    { title: 'made_by', text: ({ made_by }) => made_by?.id ?? null },
    { title: 'made_by_name', text: ({ made_by }) => made_by?.name ?? null },
  ];
}

/**
 * What a file says of wallets.
 * @param threshold_of_all what counts as low where a wallet says nothing of its own
 */
export function walletCsv(threshold_of_all: number | undefined): CsvColumn<WalletRow>[] {
  return [
    { title: 'wallet_id', text: ({ wallet_id }) => wallet_id },
    { title: 'owner_type', text: ({ owner_type }) => owner_type },
    {
      title: 'owner_id',
      text: ({ owner_user_id, owner_team_id, owner_org_id }) =>
        owner_user_id ?? owner_team_id ?? owner_org_id,
    },
    { title: 'owner_name', text: ({ owner_name }) => owner_name },
    { title: 'balance', text: ({ balance }) => decimalText(balance) },
    { title: 'reserved', text: ({ reserved }) => decimalText(reserved) },
    {
      title: 'low_balance_threshold',
      text: ({ low_balance_threshold }) => amountText(low_balance_threshold),
    },
    { title: 'currency', text: ({ currency }) => currency },
    { title: 'state', text: (wallet) => standing(wallet, threshold_of_all).word },
  ];
}
