import type { ChatMessage, HeldTicket } from './message';

/** What a tab keeps of its chat, so that a held call goes on after a visit to the provider. */
export interface Conversation {
  model: string | null;
  messages: ChatMessage[];
  /** The ticket of the last message, while it waits for money. */
  ticket: HeldTicket | null;
  /** The ticket of a message that was taken back while it waited. */
  left: LeftTicket | null;
  /** The call of the last message, if the page was left before a word of its answer came. */
  gone: string | null;
}

/** A ticket that stays open though nobody waits here, and the question that it is of. */
export interface LeftTicket {
  ticket: HeldTicket;
  question: Question;
  /** It had paid for its call as that was stopped: it pays for no other. */
  is_redeemed?: boolean;
}

/** What tells one question of a conversation from another. */
interface Question {
  model: string | null;
  /** How many messages are sent, of which the last is `content`. */
  count: number;
  content: string;
}

export const empty: Conversation = {
  model: null,
  messages: [],
  ticket: null,
  left: null,
  gone: null,
};

/** The messages that a model is sent: all but answers that were asked anew. */
export function sentOf(messages: readonly ChatMessage[]): ChatMessage[] {
  return messages.filter(({ is_left_out }) => is_left_out !== true);
}

/** The question that a conversation asks next; its last message is a person's. */
export function questionOf({ model, messages }: Conversation): Question {
  const sent = sentOf(messages);
  return { model, count: sent.length, content: sent.at(-1)?.content ?? '' };
}

/**
 * The ticket that was left, if the conversation asks its question again before the ticket ends: a
 * ticket pays for the call that opened it, to the letter.
 */
export function ticketAgain(next: Conversation, now_ms: number): HeldTicket | null {
  if (next.left === null || next.left.is_redeemed) return null;
  const { ticket, question } = next.left;
  const { model, count, content } = questionOf(next);
  const is_same =
    question.model === model && question.count === count && question.content === content;
  return is_same && Date.parse(ticket.expires_at) > now_ms ? ticket : null;
}

/**
 * Takes back the last message, which has no answer, and drops its ticket and its call: the text for
 * the field, if it was a new one. An answer that was to be asked anew counts again.
 */
export function takenBack(from: Conversation): { rest: Conversation; content: string } {
  const { messages } = from;
  const last = messages.at(-1);
  const before = messages.slice(0, -1);
  const rest = { ...from, ticket: null, gone: null };
  if (last?.role === 'user') return { rest: { ...rest, messages: before }, content: last.content };
  if (last?.is_left_out !== true) return { rest, content: '' };
  return { rest: { ...rest, messages: [...before, { ...last, is_left_out: false }] }, content: '' };
}

/** The text of a message that was taken back while its ticket is open; empty if there is none. */
export function takenText({ left, messages }: Conversation): string {
  if (left === null || left.question.count <= sentOf(messages).length) return '';
  return left.question.content;
}

/** True if the last message waits for an answer. */
export function isAsking({ messages }: Conversation): boolean {
  const last = messages.at(-1);
  return last?.role === 'user' || last?.is_left_out === true;
}
