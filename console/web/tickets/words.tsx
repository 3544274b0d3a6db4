import type { Answer } from '../api/client';
import { State } from '../parts/badge';
import { Money } from '../parts/money';

export type CostTicket = Answer<'GET /api/tickets/:id'>;

/** A state in a word. */
export const states = {
  open: { word: 'open', kind: 'waiting' },
  approved: { word: 'approved', kind: 'info' },
  denied: { word: 'denied', kind: 'bad' },
  redeemed: { word: 'done', kind: 'good' },
  expired: { word: 'expired', kind: 'neutral' },
} as const;

/** A state of a ticket in a word; one that is not known here as it is. */
export function statusWords(status: string): string {
  return Object.entries(states).find(([name]) => name === status)?.[1].word ?? status;
}

/** The state of a ticket in one word. */
export function TicketState({ ticket }: { ticket: CostTicket }) {
  return <State {...states[ticket.status]} />;
}

/** What a ticket needs: money, room in a budget, or both. */
export function missingWords({ cause, budgets = [], shortfall, currency }: CostTicket) {
  const room = Math.max(0, ...budgets.map(({ missing }) => missing));
  if (cause !== 'budget') return <Money amount={shortfall} currency={currency} is_most />;
  return (
    <span>
      <Money amount={room} currency={currency} is_most /> of a budget
      {shortfall > 0 && (
        <>
          {' and '}
          <Money amount={shortfall} currency={currency} is_most />
        </>
      )}
    </span>
  );
}

const owners = {
  key: 'the key',
  user: 'the person',
  team: 'the team',
  organization: 'the organization',
} as const;

/** Whose wallet or budget it is: `the team`. */
export function ownerWords(owner_type: keyof typeof owners): string {
  return owners[owner_type];
}
