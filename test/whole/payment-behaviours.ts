import type { Sandbox } from '../support/payments/world';

export interface Behaviour {
  words: string;
  /** The script of the provider's misbehaviour for this order. */
  prepare?: (sandbox: Sandbox, order: string) => Promise<unknown>;
  /** The buyer's act before anything happens; to pay by default. */
  buyer?: (sandbox: Sandbox, order: string) => Promise<unknown>;
  /** The act of the buyer or the provider when half has happened, and at the end. */
  midway?: (sandbox: Sandbox, order: string) => Promise<unknown>;
  ending?: (sandbox: Sandbox, order: string) => Promise<unknown>;
}

const capture = { on: 'capture' } as const;
const fault = (script: object) => (sandbox: Sandbox, order: string) =>
  sandbox.fault({ order, ...script });
export const behaviours: Behaviour[] = [
  { words: 'ok' },
  // At provider B the buyer's payment is the capture; there it is the reading that gets no answer.
  {
    words: 'no answer after success',
    prepare: async (sandbox, order) => {
      await sandbox.fault({ order, ...capture, answer: 'reset' });
      await sandbox.fault({ order, on: 'read', answer: 'reset' });
    },
  },
  {
    words: '500 after success',
    prepare: async (sandbox, order) => {
      await sandbox.fault({ order, ...capture, answer: 'error' });
      await sandbox.fault({ order, on: 'read', answer: 'error' });
    },
  },
  {
    words: 'declined, then paid',
    buyer: (sandbox, order) => sandbox.act(order, 'decline'),
    midway: (sandbox, order) => sandbox.act(order, 'pay'),
  },
  { words: 'another amount', prepare: fault({ ...capture, amount: '49.00' }) },
  { words: 'another currency', prepare: fault({ ...capture, currency: 'EUR' }) },
  {
    words: 'pending, then completed',
    prepare: fault({ ...capture, result: 'pending' }),
    ending: (sandbox, order) => sandbox.act(order, 'complete-pending'),
  },
];
