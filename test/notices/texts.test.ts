import type { FullNotice } from '../../domain/notices/full-notices';
import type { MessageKind } from '../../domain/notices/kinds';
import { slackMessage, teamsFailure, teamsMessage } from '../../notices/chat';
import { oneLine, textOf } from '../../notices/texts';

const notice = (payload: FullNotice['payload']): FullNotice => ({
  id: 'ntc_1',
  destination_id: 'nd_1',
  org_id: 'org_1',
  kind: 'ticket_created',
  event_id: 'evt_1',
  cost_ticket_id: 'tkt_1',
  created_at: new Date(0),
  message_id: 'msg_1',
  decided_by: null,
  payload,
  org_name: 'Org',
  time_zone: 'Asia/Kolkata',
  user_name: 'Ann',
  team_name: 'Team',
  owner_name: null,
  decider_name: null,
  ticket_status: null,
  claim_status: null,
  moved_nanos: null,
});

const toldOf = (payload: FullNotice['payload'], label: string) =>
  textOf('ticket_created', 1, [notice(payload)]).facts.find((fact) => fact.label === label)?.value;

test.each([
  ['1', '0.000000001 USD'],
  ['100', '0.0000001 USD'],
  ['9007199254740993000', '9007199254.740993 USD'],
  ['-2500000000', '-2.5 USD'],
  ['none', 'none'],
])('%s nanos are %s', (estimated_cost_nanos, told) => {
  expect(toldOf({ estimated_cost_nanos }, 'Estimated cost')).toBe(told);
});

test('a ticket of budgets alone says what is missing in each, and nothing of wallets', () => {
  const budget = { id: 'bgt_1', owner_id: 'x', used_nanos: '9500000000', resets_at: null };
  const team = { ...budget, owner_type: 'team', window: 'month' };
  const key = { ...budget, owner_type: 'key', window: 'life' };
  const payload = {
    cause: 'budget',
    shortfall_nanos: '0',
    budgets: [
      { ...team, limit_nanos: '10000000000', missing_nanos: '500000000' },
      { ...key, limit_nanos: '2000000000', missing_nanos: '1' },
    ],
  };
  expect(toldOf(payload, 'Missing')).toBeUndefined();
  expect(toldOf(payload, 'Missing in the budget of the team')).toBe('0.5 USD of 10 USD a month');
  expect(toldOf(payload, 'Missing in the budget of the key')).toBe(
    '0.000000001 USD of 2 USD in all',
  );
  // A wallet is short too, or alone.
  expect(toldOf({ ...payload, shortfall_nanos: '7' }, 'Missing')).toBe('0.000000007 USD');
  expect(toldOf({ shortfall_nanos: '0' }, 'Missing')).toBe('0 USD');
});

test.each([
  ['1', undefined],
  ['', undefined],
  [
    'Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error 429 with ContextId tcid=4',
    429,
  ],
  ['Webhook message delivery failed with error: the bot is gone', 502],
])('of what Teams answers with 200, %j is the failure %s', (text, failure) => {
  expect(teamsFailure(text)).toBe(failure);
});

test('many of a kind are told by whom or what they are of', () => {
  const facts = (kind: MessageKind, all: Partial<FullNotice>[]) => {
    const notices = all.map((one) => ({ ...notice({}), user_name: null, ...one }));
    return textOf(kind, all.length, notices).facts;
  };
  expect(
    facts('balance_low', [{ owner_name: 'Ann' }, { owner_name: 'Bob' }, { owner_name: 'Ann' }, {}]),
  ).toEqual([
    { label: 'Ann', value: '2' },
    { label: 'Bob', value: '1' },
    { label: 'Org', value: '1' },
  ]);
  const keys = ['k1', 'k2'].map((name) => ({ payload: { name } }));
  expect(facts('key_expiring', keys).map(({ label }) => label)).toEqual(['k1', 'k2']);
});

test('whose budget it is and who decided are named', () => {
  const facts = (payload: FullNotice['payload'], names: Partial<FullNotice>) =>
    textOf('budget_threshold', 1, [{ ...notice(payload), ...names }]).facts;
  expect(facts({ owner_type: 'team' }, { owner_name: 'Research' })).toContainEqual({
    ...{ label: 'Of', value: 'team Research' },
  });
  expect(facts({ decided_by: 'usr_1' }, { decider_name: 'Bob' })).toContainEqual({
    ...{ label: 'Decided by', value: 'Bob' },
  });
  // A rule, or a key that stands for nobody.
  expect(facts({ decided_by: 'rule' }, {})).toContainEqual({ label: 'Decided by', value: 'rule' });
  expect(facts({ owner_type: 'organization' }, {}).map(({ label }) => label)).toEqual([
    ...['Organization', 'Person', 'Team', 'Ticket'],
  ]);
});

test.each<[MessageKind, FullNotice['payload'], FullNotice['claim_status'], string]>([
  [
    'dispute',
    { status: 'completed' },
    'open',
    'A payment is disputed: its money has left the wallet',
  ],
  [
    'dispute',
    { status: 'refunded' },
    'open',
    'A payment is disputed: its money has left the wallet',
  ],
  ['dispute', { reversed: true }, 'won', 'A dispute is won: its money is back in the wallet'],
  ['dispute', { dispute_status: 'lost' }, 'lost', 'A dispute is lost: its money stays away'],
  // It was lost before anybody looked.
  ['dispute', { status: 'completed' }, 'lost', 'A dispute is lost: its money stays away'],
  // It was decided while the first word of it was tried again.
  [
    'dispute',
    { status: 'completed' },
    'won',
    'A payment is disputed: its money has left the wallet',
  ],
  ['refund', { status: 'completed' }, 'succeeded', 'A payment was refunded in part'],
  ['refund', { status: 'refunded' }, null, 'A payment was refunded'],
  ['refund', { status: 'completed' }, 'pending', 'A refund of a payment is on its way'],
  ['refund', { reversed: true }, 'failed', 'A refund has failed: its money is back in the wallet'],
  ['payment', { status: 'completed' }, null, 'A payment was credited'],
  ['payment', { status: 'failed' }, null, 'A payment has failed'],
  ['ticket_resolved', { status: 'approved' }, null, 'A cost ticket was approved'],
  ['ticket_resolved', { status: 'denied' }, null, 'A cost ticket was denied'],
  ['ticket_resolved', { status: 'expired' }, null, 'A cost ticket has expired'],
  ['ticket_resolved', { status: 'redeemed' }, null, 'A cost ticket has paid for its call'],
])('of %s %j, a claim that is %s, the title is: %s', (kind, payload, claim_status, title) => {
  expect(textOf(kind, 1, [{ ...notice(payload), claim_status }]).title).toBe(title);
});

test.each([
  ['open', 'A request waits for approval'],
  ['denied', 'A cost ticket was denied'],
  ['approved', 'A cost ticket was approved'],
  ['redeemed', 'A cost ticket has paid for its call'],
  ['expired', 'A cost ticket has expired'],
])('of a ticket that is %s by the time of the message, it says: %s', (ticket_status, title) => {
  const then = { ...notice({ status: 'open' }), ticket_status };
  const text = textOf('ticket_created', 1, [then]);
  expect(text.title).toBe(title);
  expect(text.facts).toContainEqual({ label: 'Status', value: ticket_status });
});

test('of many requests it says that none waits only if that is known of each', () => {
  const some = (...all: string[]) => all.map((ticket_status) => ({ ...notice({}), ticket_status }));
  const told = (count: number, all: FullNotice[]) => textOf('ticket_created', count, all).title;
  expect(told(2, some('denied', 'expired'))).toBe('2 requests asked for approval, and none waits');
  expect(told(2, some('denied', 'open'))).toBe('2 requests wait for approval');
  expect(told(3, some('denied', 'expired'))).toBe('3 requests wait for approval');
});

test.each<[MessageKind, FullNotice['payload'], string]>([
  ['dispute', {}, 'Taken from the wallet'],
  ['dispute', { reversed: true }, 'Back in the wallet'],
  ['dispute', { dispute_status: 'lost' }, 'Lost for good'],
  ['refund', {}, 'Taken from the wallet'],
  ['refund', { reversed: true }, 'Back in the wallet'],
])('%s %j says what it moved: %s', (kind, payload, label) => {
  const paid = { ...payload, status: 'completed', currency: 'EUR', refunded_amount_nanos: '5' };
  const { facts } = textOf(kind, 1, [{ ...notice(paid), moved_nanos: 29_990_000_000n }]);
  expect(facts[0]).toEqual({ label, value: '29.99 EUR' });
  expect(facts).toContainEqual({ label: 'Gone back in all', value: '0.000000005 EUR' });
  expect(facts).toContainEqual({ label: 'Payment', value: 'completed' });
});

test.each([
  ['Asia/Kolkata', '1 Dec 2026, 08:30 (Asia/Kolkata)'],
  ['Pacific/Auckland', '1 Dec 2026, 16:00 (Pacific/Auckland)'],
  // The platform's notices are of no organization.
  [null, '1 Dec 2026, 03:00 (UTC)'],
])('times are told by the calendar of %s', (time_zone, told) => {
  const payload = { expires_at: '2026-12-01T03:00:00.000Z', resets_at: null };
  const { facts } = textOf('ticket_created', 1, [{ ...notice(payload), time_zone }]);
  expect(facts).toContainEqual({ label: 'Ends', value: told });
  expect(facts.map(({ label }) => label)).not.toContain('New window');
});

test('Slack gets all facts of a ticket, ten a block', () => {
  const text = textOf('ticket_created', 1, [
    notice({
      ...{ status: 'open', model: 'gpt-4o', provider: 'openai', currency: 'EUR', note: 'n' },
      ...{
        estimated_cost_nanos: '5',
        balance_nanos: '3',
        shortfall_nanos: '2',
        expires_at: 'soon',
      },
    }),
  ]);
  const { blocks } = slackMessage(text) as { blocks: { fields?: { text: string }[] }[] };
  const sizes = blocks.flatMap(({ fields }) => (fields ? [fields.length] : []));
  expect(sizes).toEqual([10, 2]);
  expect(blocks.at(-1)?.fields?.at(-1)?.text).toBe('Ticket: tkt_1');
});

test('Teams shows a name with the marks of HTML as it was written', () => {
  const facts = [{ label: 'Person', value: '<at>R&D</at> &lt;b&gt;' }];
  const shown = JSON.stringify(teamsMessage({ title: 't', facts, links: [] }));
  expect(shown).toContain('&lt;at\\\\>R&D&lt;/at\\\\> &amp;lt;b&amp;gt;');
});

const family = '\u{1f469}\u200d\u{1f469}\u200d\u{1f467}';

test.each([
  ['a break and control characters', 'a\r\n\u0000b\u2028c\u0085d', 'a b c d'],
  ['marks that turn what follows around', 'a\u202eb\u2066c\u2069d\u202ae', 'a b c d e'],
  ['half an emoji at the cut', `${'a'.repeat(299)}\u{1f600}`, 'a'.repeat(299)],
  ['a part of a family at the cut', `${'a'.repeat(295)}${family}`, 'a'.repeat(295)],
  ['cut before an emoji that fits', `${'a'.repeat(298)}\u{1f600}b`, `${'a'.repeat(298)}\u{1f600}`],
])('one line has no %s', (_, text, line) => {
  expect(oneLine(text)).toBe(line);
});
