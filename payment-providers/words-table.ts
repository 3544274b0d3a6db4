import { readFileSync, writeFileSync } from 'node:fs';
import type { Words } from './words-a';
import * as a from './words-a';
import * as b from './words-b';

interface List {
  /** Where the provider documents it. */
  object: string;
  words: Words<string>;
  /** What each meaning makes us do, for people. */
  does: Readonly<Record<string, string>>;
}

const payment = {
  open: '`created`: waits for the buyer',
  approved: '`capturing`: the money is asked for',
  pending: '`capturing`: asked again until it is known; cannot be canceled',
  captured: 'credited, or `amount_mismatch`',
  failed: '`failed`, `declined`; money that comes after all is credited',
  closed: '`expired`; money that comes after all is credited',
};
const refund = {
  succeeded: 'taken from the wallet; `refunded` once all is back',
  pending: 'taken from the wallet; `refund_status: pending`, asked again',
  failed: 'the wallet gets it again',
};
const dispute = {
  open: "taken from the wallet; a person's",
  lost: 'taken from the wallet, less what refunds that it names took',
  won: 'the wallet gets it again',
  'no loss': 'nothing: no money has moved',
  'by outcome': 'what its outcome says',
};

/** The lists of words that the providers document, and what we do about each. */
export const lists: readonly List[] = [
  { object: 'A: order `status`, without a capture', words: a.orders, does: payment },
  { object: 'A: capture `status`', words: a.captures, does: payment },
  { object: 'A: refund `status`', words: a.refunds, does: refund },
  {
    object: 'A: dispute `dispute_life_cycle_stage`',
    words: a.stages,
    does: { talk: 'nothing: no money has moved', claim: 'what its status says' },
  },
  { object: 'A: dispute `status`', words: a.disputes, does: dispute },
  { object: 'A: dispute `outcome_code`', words: a.outcomes, does: dispute },
  {
    object: 'A: `issue` of a refused capture, if the order is still open or approved',
    words: a.issues,
    does: {
      declined: '`created`, `declined`: the buyer may pay another way',
      not_approved: '`created`, `not_approved`: the buyer goes back to the page',
      key_used: '`capturing`: once more at once, under the next key',
      in_progress: '`capturing`: asked again under the same key',
      provider_error: '`capturing`: asked again; `provider_message` says it to a person',
    },
  },
  {
    object: 'B: checkout session `payment_status`',
    words: b.payments,
    does: { ...payment, 'by session': 'what its `status` says' },
  },
  {
    object: 'B: checkout session `status`',
    words: b.sessions,
    does: { ...payment, 'by intent': "what its payment intent's `status` says" },
  },
  {
    object: 'B: payment intent `status`, of a session that is complete',
    words: b.intents,
    does: payment,
  },
  {
    object: 'B: charge `status`',
    words: b.charges,
    does: { 'not read': 'not read: its payment intent says it' },
  },
  { object: 'B: refund `status`', words: b.refunds, does: refund },
  { object: 'B: dispute `status`', words: b.disputes, does: dispute },
];

/** The table of docs/payments.md: a row for each meaning of each list, the unknown word last. */
export function wordsTable(): string {
  const rows = lists.flatMap(({ object, words, does }) => {
    const { known, unknown } = words;
    const meanings = [...new Set([...Object.values(known), unknown])];
    return meanings.map((meaning) => {
      const named = Object.keys(known).filter((word) => known[word] === meaning);
      const shown = named.map((word) => `\`${word}\``);
      if (meaning === unknown) shown.push('any other word');
      return `| ${object} | ${shown.join(', ')} | ${does[meaning]} |`;
    });
  });
  return ['| What the provider says | Words | What we do |', '|---|---|---|', ...rows].join('\n');
}

const markers = /(<!-- words: npm run words -->\n).*(\n<!-- end -->)/s;

/** The document with the table in its place. */
export function withWordsTable(text: string): string {
  return text.replace(markers, (_, before, after) => before + wordsTable() + after);
}

/** Run as a program: writes the table into its document. */
export function main(): void {
  const file = 'docs/payments.md';
  writeFileSync(file, withWordsTable(readFileSync(file, 'utf8')));
}
