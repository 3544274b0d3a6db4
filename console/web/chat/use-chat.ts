import { useEffect, useRef, useState } from 'react';
import { Refusal } from '../api/client';
import { refresh } from '../api/queries';
import { type Conversation, empty, keep, keptConversation, type Speaker } from './conversation';
import { ask, type HeldTicket } from './stream';
import { refusalWords } from './words';

const AGAIN_MS = 2_000;

/** A person's chat of this tab: what was said, what is being said, and why it does not go on. */
export function useChat(speaker: Speaker) {
  const [talk, setTalk] = useState(() => keptConversation(speaker));
  const [draft, setDraft] = useState<string>();
  const [problem, setProblem] = useState<{ title: string; words: string }>();
  const [returned, setReturned] = useState('');
  const stop = useRef<AbortController>(undefined);
  const change = (next: Conversation) => {
    setTalk(next);
    keep(next, speaker);
  };

  /** Has the last message answered; what is not paid waits for its ticket. */
  const run = async (now: Conversation) => {
    stop.current?.abort();
    const own = new AbortController();
    stop.current = own;
    setProblem(undefined);
    setDraft('');
    let asked = now;
    try {
      for (;;) {
        const { messages, model, ticket } = asked;
        const question = { model: model ?? '', messages, ticket_id: ticket?.id };
        try {
          const made = await ask(question, setDraft, own.signal);
          change({ ...asked, messages: [...messages, made], ticket: null });
          void refresh('/api/wallets', '/api/chat', '/api/spend');
          return;
        } catch (refusal) {
          const short = ticketOf(refusal);
          if (short === undefined) throw refusal;
          // The same call again, with its ticket: it waits, and goes on once there is money.
          if (asked.ticket !== null) await pause(own.signal);
          asked = { ...asked, ticket: short };
          change(asked);
          void refresh('/api/chat', '/api/tickets');
        }
      }
    } catch (refusal) {
      if (own.signal.aborted) return;
      setProblem(refusalWords(refusal));
      giveBack(asked);
    } finally {
      if (stop.current === own) setDraft(undefined);
    }
  };

  /** Takes the last message back into the field: nothing that was typed is lost. */
  const giveBack = (from: Conversation) => {
    const last = from.messages.at(-1);
    if (last?.role !== 'user') return;
    setReturned(last.content);
    change({ ...from, messages: from.messages.slice(0, -1), ticket: null });
  };

  // biome-ignore lint/correctness/useExhaustiveDependencies: once, for what waited before.
  useEffect(() => {
    if (talk.ticket !== null) void run(talk);
    return () => stop.current?.abort();
  }, []);

  return {
    ...talk,
    /** The answer as far as it has come; undefined: nothing is asked. */
    draft,
    problem,
    /** What was taken back from the conversation, to be changed. */
    returned,
    choose: (model: string | null) => change({ ...talk, model }),
    send: (content: string, model: string | null) => {
      setReturned('');
      const next: Conversation = {
        model,
        messages: [...talk.messages, { role: 'user', content }],
        ticket: null,
      };
      change(next);
      void run(next);
    },
    stop: () => {
      stop.current?.abort();
      setDraft(undefined);
      giveBack(talk);
    },
    clear: () => {
      stop.current?.abort();
      setDraft(undefined);
      setProblem(undefined);
      change({ ...empty, model: talk.model });
    },
  };
}

function ticketOf(refusal: unknown): HeldTicket | undefined {
  if (!(refusal instanceof Refusal) || refusal.status !== 402) return undefined;
  return refusal.details.cost_ticket as HeldTicket | undefined;
}

function pause(signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, AGAIN_MS);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}
