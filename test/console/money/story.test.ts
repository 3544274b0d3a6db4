import { familyWords } from '../../../console/web/requests/family-words';
import { type Story, stepsOf } from '../../../console/web/requests/words';
import { entryWords } from '../../../console/web/wallets/entry-words';

const at = '2026-11-30T12:00:00.000Z';

/** A call that waits for a ticket, with the event that opened it. */
function waiting(payload?: Record<string, unknown>): Story {
  const opened = { id: 'evt_1', type: 'cost_ticket.created', created_at: at, payload };
  return {
    cost_ticket: { id: 'tkt_1', status: 'open', created_at: at, decided_at: null, note: null },
    transactions: [],
    events: payload === undefined ? [] : [opened],
    settlement: null,
  } as unknown as Story;
}

test.each([
  ['a budget was used up', { cause: 'budget' }, 'Its budget did not cover it'],
  ['only money was missing', {}, 'No wallet covered it'],
  ['another call had opened it', undefined, 'It waited for a ticket'],
])('of a ticket for which %s the story says so', (_, payload, title) => {
  expect(stepsOf(waiting(payload)).map((step) => step.title)).toEqual([title]);
});

test.each([
  ['close', null, 'Call settled'],
  ['close', 'hold expired', 'Hold expired, money returned'],
  ['late', 'settled after expiry', 'Charged after its hold expired'],
  ['excess', 'charged beyond the bound', 'Charged beyond the hold'],
] as const)(
  'a settlement of phase %s and description %s is told as "%s"',
  (phase, description, words) => {
    expect(entryWords({ type: 'settlement', phase, description })).toBe(words);
  },
);

test('an entry that is no settlement is told by its type, whatever its note says', () => {
  const entry = { type: 'credit', phase: null, description: 'hold expired' } as const;
  expect(entryWords(entry)).toBe('Credited by hand');
});

test('a kind of call that is not known here is told by its code', () => {
  expect(familyWords('chat_completions')).toBe('Chat');
  expect(familyWords('yet_unknown')).toBe('yet_unknown');
});
