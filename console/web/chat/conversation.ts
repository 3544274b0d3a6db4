import type { ChatMessage, HeldTicket } from './stream';

/** What a tab keeps of its chat, so that a held call goes on after a visit to the provider. */
export interface Conversation {
  model: string | null;
  messages: ChatMessage[];
  /** The ticket of the last message, while it waits for money. */
  ticket: HeldTicket | null;
}

const NAME = 'svc-chat';
export const empty: Conversation = { model: null, messages: [], ticket: null };

/** The conversation of this tab; an empty one if there is none, or storage is forbidden. */
export function keptConversation(): Conversation {
  try {
    const found = JSON.parse(sessionStorage.getItem(NAME) ?? 'null') as Conversation | null;
    return Array.isArray(found?.messages) ? { ...empty, ...found } : empty;
  } catch {
    return empty;
  }
}

/** Keeps it for this tab; without storage it lives until the page is left. */
export function keep(conversation: Conversation): void {
  try {
    sessionStorage.setItem(NAME, JSON.stringify(conversation));
  } catch {
    // Then it is not kept.
  }
}

/** True if a message of this tab's chat waits for money. */
export function isHeld(): boolean {
  return keptConversation().ticket !== null;
}
