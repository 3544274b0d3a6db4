import { useEffect, useRef, useState } from 'react';
import { Refusal } from '../api/client';
import { refresh } from '../api/queries';
import { serverNow } from '../base/clock';
import {
  type Conversation,
  empty,
  isAsking,
  questionOf,
  sentOf,
  takenBack,
  takenText,
  ticketAgain,
} from './conversation';
import { keep, keptConversation, type Speaker } from './kept';
import type { ChatMessage, HeldTicket } from './message';
import { ask } from './stream';
import * as words from './words';

const AGAIN_MS = 2_000;
/** A call that was held for so long was not refused at once. */
const WAITED_MS = 10_000;

/** Why a conversation does not go on. */
interface Problem extends words.Said {
  /** The call that it is of, if there was one, for what it cost. */
  call_id?: string | null | undefined;
}

/** What is asked now, and its answer as far as it has come. */
interface Underway {
  own: AbortController;
  came?: ChatMessage;
}

type Cost = NonNullable<ChatMessage['cost']>;

/** A person's chat of this tab: what was said, what is being said, and why it does not go on. */
export function useChat(speaker: Speaker) {
  const { talk, latest, change } = useConversation(speaker);
  const [draft, setDraft] = useState<string>();
  const [problem, setProblem] = useState<Problem>();
  const [returned, setReturned] = useState(() => takenText(talk));
  const underway = useRef<Underway>(undefined);
  const add = (made: ChatMessage) =>
    change({ messages: [...latest.current.messages, made], ticket: null });

  /** Has the last message answered. */
  const run = async () => {
    underway.current?.own.abort();
    const mine: Underway = { own: new AbortController() };
    const { signal } = mine.own;
    underway.current = mine;
    setProblem(undefined);
    setDraft('');
    const hear = (came: ChatMessage) => {
      if (signal.aborted) return;
      mine.came = came;
      setDraft(came.content);
    };
    try {
      const made = await answerOf({ latest, change }, signal, hear);
      if (signal.aborted) return;
      add(made);
      void refresh('/api/wallets', '/api/chat', '/api/spend');
    } catch (refusal) {
      if (signal.aborted) return;
      setProblem({ ...words.refusalWords(refusal), call_id: callOf(refusal) });
      const { ticket } = latest.current;
      if (ticket !== null && isStillGood(refusal))
        change({ left: { ticket, question: questionOf(latest.current) } });
      giveBack();
    } finally {
      if (underway.current === mine) {
        underway.current = undefined;
        setDraft(undefined);
      }
    }
  };

  /** Takes the last message back into the field: nothing that was typed is lost. */
  const giveBack = () => {
    const { rest, content } = takenBack(latest.current);
    if (content !== '') setReturned(content);
    change(rest);
  };

  /** Ends what is under way. What has come of the answer stays, as it is paid. */
  const stop = () => {
    const came = breakOff();
    if (came === undefined) return;
    if (came.content !== '') add({ ...came, ended: words.stopped });
    else if (!leaveTicket(came))
      setProblem({ ...words.unanswered.stopped, call_id: came.request_id });
  };

  /** Takes back a message without an answer; true if its ticket stays, which has paid nothing. */
  const leaveTicket = ({ request_id }: ChatMessage): boolean => {
    const { ticket } = latest.current;
    const stays = ticket !== null && request_id === undefined;
    if (stays) change({ left: { ticket, question: questionOf(latest.current) } });
    giveBack();
    return stays;
  };

  /** The same as the page is left: a message that waits for money goes on when it is back. */
  const leave = () => {
    const came = breakOff();
    // Whoever has signed out meanwhile leaves nothing.
    if (came === undefined || keptConversation(speaker).messages.length === 0) return;
    if (came.content !== '') add({ ...came, ended: words.left });
    // It has begun: a ticket has paid for it, and what it cost is told when the page is back.
    else if (came.request_id !== undefined) change({ ticket: null, gone: came.request_id });
  };

  /** Stops what is under way; its answer as far as it has come, undefined if nothing was. */
  const breakOff = (): ChatMessage | undefined => {
    const was = underway.current;
    underway.current = undefined;
    was?.own.abort();
    setDraft(undefined);
    return was && (was.came ?? { role: 'assistant', content: '' });
  };

  // biome-ignore lint/correctness/useExhaustiveDependencies: once, for what waited before.
  useEffect(() => {
    if (talk.ticket !== null) void run();
    else if (isAsking(talk)) {
      setProblem({ ...words.unanswered.left, call_id: talk.gone });
      giveBack();
    }
    window.addEventListener('pagehide', leave);
    return () => {
      window.removeEventListener('pagehide', leave);
      leave();
    };
  }, []);

  /** Asks what a conversation asks next, with the ticket that was left if it is of this. */
  const go = (next: Partial<Conversation>) => {
    setReturned('');
    const ticket = ticketAgain({ ...latest.current, ...next }, serverNow());
    change({ ...next, ticket, left: null, gone: null });
    void run();
  };

  return {
    ...talk,
    /** The answer as far as it has come; undefined: nothing is asked. */
    draft,
    problem,
    /** What was taken back from the conversation, to be changed. */
    returned,
    choose: (model: string | null) => change({ model }),
    send: (content: string, model: string | null) =>
      go({ model, messages: [...latest.current.messages, { role: 'user', content }] }),
    /** Asks the question of the last answer anew, which ended early: it is left out of the call. */
    askAnew: (model: string | null) => {
      const last = latest.current.messages.at(-1);
      if (underway.current !== undefined || last?.ended === undefined) return;
      const before = latest.current.messages.slice(0, -1);
      go({ model, messages: [...before, { ...last, is_left_out: true }] });
    },
    /** Notes what a call has cost whose answer did not say so. */
    price: (request_id: string, cost: Cost) => {
      change({ messages: priced(latest.current.messages, request_id, cost) });
      void refresh('/api/wallets', '/api/chat/balance', '/api/spend');
    },
    /** Notes that the ticket of a message that was taken back had paid for it. */
    redeemed: () => {
      const { left } = latest.current;
      if (left !== null) change({ left: { ...left, is_redeemed: true } });
      void refresh('/api/wallets', '/api/chat/balance', '/api/spend');
    },
    stop,
    /** Begins a conversation anew; a message that has no word of an answer goes into the field. */
    clear: () => {
      const came = breakOff();
      setProblem(undefined);
      if (came?.content === '') leaveTicket(came);
      const { model, left } = latest.current;
      change({ ...empty, model, left: came?.content === '' ? left : null });
    },
  };
}

function priced(messages: readonly ChatMessage[], request_id: string, cost: Cost): ChatMessage[] {
  return messages.map((one) => (one.request_id === request_id ? { ...one, cost } : one));
}

/** The tab's conversation, and as it is by now, for what goes on while the page is drawn. */
function useConversation(speaker: Speaker) {
  const [talk, setTalk] = useState(() => keptConversation(speaker));
  const latest = useRef(talk);
  const change = (changes: Partial<Conversation>) => {
    latest.current = { ...latest.current, ...changes };
    setTalk(latest.current);
    keep(latest.current, speaker);
  };
  return { talk, latest, change };
}

/** The answer to a conversation; a call that is not paid waits for its ticket. */
async function answerOf(
  { latest, change }: Pick<ReturnType<typeof useConversation>, 'latest' | 'change'>,
  signal: AbortSignal,
  hear: (came: ChatMessage) => void,
): Promise<ChatMessage> {
  for (;;) {
    const { messages, model, ticket } = latest.current;
    const question = { model: model ?? '', messages: sentOf(messages), ticket_id: ticket?.id };
    const asked_at = performance.now();
    try {
      return await ask(question, hear, signal);
    } catch (refusal) {
      const short = ticketOf(refusal) ?? (isPassing(refusal, ticket) ? ticket : null);
      if (short === null || signal.aborted) throw refusal;
      // The same call again, with its ticket: it waits, and goes on once there is money.
      // Who has waited asks on at once, as a place in the queue is kept for two seconds alone.
      const has_waited = performance.now() - asked_at > WAITED_MS;
      const is_in_turn = has_waited && ticketOf(refusal) !== null;
      if (ticket !== null && !is_in_turn) await pause(signal, pauseMs(refusal));
      change({ ticket: short });
      void refresh('/api/chat', '/api/tickets');
    }
  }
}

/** The call that was refused once it had begun. */
function callOf(refusal: unknown): string | null {
  const has_begun = refusal instanceof Refusal && refusal.status >= 200 && refusal.status < 300;
  return has_begun ? refusal.request_id : null;
}

/** What the ways to the gateway say, and it before it takes a call. */
const passing = ['unreachable', 'unavailable', 'overloaded', 'rate_limit_exceeded'];

/** True if a message that waits is to go on waiting: nobody said anything of its ticket. */
function isPassing(refusal: unknown, ticket: HeldTicket | null): boolean {
  if (!(refusal instanceof Refusal) || ticket === null) return false;
  const has_passed = [0, 429, 502, 503, 504].includes(refusal.status);
  const lives = Date.parse(ticket.expires_at) > serverNow();
  return lives && has_passed && passing.includes(refusal.code);
}

/** True if a refusal leaves the ticket of a message as it was, for when that is sent again. */
function isStillGood(refusal: unknown): boolean {
  if (!(refusal instanceof Refusal)) return true;
  const { status, code } = refusal;
  // A call that had begun has used its ticket; that of a session is of no use to the next one.
  const has_begun = status >= 200 && status < 300;
  const is_used = /^(ticket_|upstream_|provider_|output_)/.test(code);
  return !has_begun && !is_used && status !== 401;
}

function pauseMs(refusal: unknown): number {
  const named = refusal instanceof Refusal ? refusal.retry_after_s : null;
  return Math.max(AGAIN_MS, (named ?? 0) * 1_000);
}

function ticketOf(refusal: unknown): HeldTicket | null {
  if (!(refusal instanceof Refusal) || refusal.status !== 402) return null;
  return (refusal.details.cost_ticket as HeldTicket | undefined) ?? null;
}

function pause(signal: AbortSignal, ms: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', stop);
      resolve();
    }, ms);
    signal.addEventListener('abort', stop, { once: true });
  });
}
