import {
  type Conversation,
  empty,
  isAsking,
  questionOf,
  sentOf,
  takenBack,
  takenText,
  ticketAgain,
} from '../../console/web/chat/conversation';
import type { ChatMessage } from '../../console/web/chat/message';

const asked: ChatMessage = { role: 'user', content: 'All of it' };
const half: ChatMessage = {
  role: 'assistant',
  content: 'Half',
  ended: { how: 'broke off', words: 'The connection broke off.' },
};
const out: ChatMessage = { ...half, is_left_out: true };
const talk = (...messages: ChatMessage[]): Conversation => ({ ...empty, model: 'm', messages });

test('an answer that ended early is sent along, and one that was asked anew is not', () => {
  expect(sentOf([asked, half, asked])).toEqual([asked, half, asked]);
  expect(sentOf([asked, out, half])).toEqual([asked, half]);
});

test('what has no answer is taken back: a new message into the field, a try into its place', () => {
  expect(takenBack(talk(asked))).toEqual({ rest: talk(), content: 'All of it' });
  const again = { rest: talk(asked, { ...half, is_left_out: false }), content: '' };
  expect(takenBack(talk(asked, out))).toEqual(again);
  expect(takenBack(talk(asked, half))).toEqual({ rest: talk(asked, half), content: '' });
  expect(takenBack(talk())).toEqual({ rest: talk(), content: '' });
  // A ticket that was refused is not sent again, and a call that was left is told of once,
  // whatever the last message is.
  const money = { estimated_cost: 1, shortfall: 1, currency: 'USD' };
  const ticket = { id: 'ticket_1', expires_at: '2026-12-02T12:00:00Z', ...money };
  for (const one of [talk(asked), talk(asked, out), talk(asked, half), talk()])
    expect(takenBack({ ...one, ticket, gone: 'req_1' }).rest).toMatchObject({
      ticket: null,
      gone: null,
    });
  const waits = [talk(asked), talk(asked, out), talk(asked, half), talk()].map(isAsking);
  expect(waits).toEqual([true, true, false, false]);
});

test('a ticket that was left is used by the question that it is of, until it ends', () => {
  const now_ms = Date.parse('2026-12-01T12:00:00Z');
  const expires_at = '2026-12-02T12:00:00Z';
  const money = { estimated_cost: 1, shortfall: 1, currency: 'USD' };
  const ticket = { id: 'ticket_1', expires_at, ...money };
  const left = { ticket, question: questionOf(talk(asked)) };
  const with_left = (one: Conversation) => ({ ...one, left });
  const again = (one: Conversation, at_ms = now_ms) => ticketAgain(with_left(one), at_ms)?.id;
  expect(again(talk(asked))).toBe('ticket_1');
  expect(again(talk(asked, out))).toBe('ticket_1');
  expect(again({ ...talk(asked), model: 'other' })).toBeUndefined();
  expect(again(talk({ ...asked, content: 'Some of it' }))).toBeUndefined();
  expect(again(talk(asked, half, asked))).toBeUndefined();
  expect(again(talk(asked), Date.parse(expires_at))).toBeUndefined();
  expect(ticketAgain(talk(asked), now_ms)).toBeNull();
  // It has paid for the call that was stopped, and the next one asks for its own.
  const redeemed = { ...left, is_redeemed: true };
  expect(ticketAgain({ ...talk(asked), left: redeemed }, now_ms)).toBeNull();
  // In the field after a reload, unless it was a try anew, whose question stands above.
  expect(takenText(with_left(talk()))).toBe('All of it');
  expect(takenText(with_left(talk(asked, half)))).toBe('');
});
