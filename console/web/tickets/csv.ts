import type { AnyColumn } from '../base/csv';
import { decimalText } from '../base/decimals';
import type { CostTicket } from './words';

/** What a file says of tickets. */
export const ticketCsv: AnyColumn<CostTicket>[] = [
  { title: 'id', text: ({ id }) => id },
  { title: 'status', text: ({ status }) => status },
  { title: 'cause', text: ({ cause = 'balance' }) => cause },
  { title: 'created_at', text: ({ created_at }) => created_at },
  { title: 'expires_at', text: ({ expires_at }) => expires_at },
  { title: 'asked_by', text: ({ asked_by }) => asked_by },
  { title: 'user_id', text: ({ user_id }) => user_id },
  { title: 'team_id', text: ({ team_id }) => team_id },
  { title: 'agent_id', text: ({ agent_id }) => agent_id },
  { title: 'key_id', text: ({ key_id }) => key_id },
  { title: 'provider', text: ({ provider }) => provider },
  { title: 'model', text: ({ model }) => model },
  { title: 'estimated_cost', text: ({ estimated_cost }) => decimalText(estimated_cost) },
  { title: 'shortfall', text: ({ shortfall }) => decimalText(shortfall) },
  {
    title: 'budget_missing',
    // The same that the list shows: what the budget lacks that lacks most.
    text: ({ budgets = [] }) =>
      budgets.length === 0
        ? null
        : decimalText(Math.max(0, ...budgets.map(({ missing }) => missing))),
  },
  { title: 'currency', text: ({ currency }) => currency },
  { title: 'decided_at', text: ({ decided_at }) => decided_at },
  { title: 'decided_by', text: ({ decided_by }) => decided_by },
  {
    title: 'decided_by_name',
    name_of: ({ decided_by }) => (decided_by === 'rule' ? null : decided_by),
  },
  {
    title: 'credited_amount',
    text: ({ credited_amount }) => (credited_amount === null ? null : decimalText(credited_amount)),
  },
  { title: 'note', text: ({ note }) => note },
  { title: 'request_id', text: ({ request_id }) => request_id },
];
