import { type Conversation, empty } from './conversation';

/** Whose a conversation is: the next person at this tab reads and sends nothing of it. */
export interface Speaker {
  user_id: string;
  org_id: string | null;
}

const NAME = 'svc-chat';

/**
 * The person's conversation of this tab; an empty one if there is none, or storage is forbidden.
 * Another's is forgotten.
 */
export function keptConversation({ user_id, org_id }: Speaker): Conversation {
  try {
    const found = JSON.parse(sessionStorage.getItem(NAME) ?? 'null') as
      | (Conversation & Partial<Speaker>)
      | null;
    if (!Array.isArray(found?.messages)) return empty;
    if (found.user_id === user_id && found.org_id === org_id) {
      const { model, messages, ticket, left, gone } = { ...empty, ...found };
      return { model, messages, ticket, left, gone };
    }
    sessionStorage.removeItem(NAME);
    return empty;
  } catch {
    return empty;
  }
}

/** Keeps it for this tab; without storage it lives until the page is left. */
export function keep(conversation: Conversation, { user_id, org_id }: Speaker): void {
  try {
    sessionStorage.setItem(NAME, JSON.stringify({ ...conversation, user_id, org_id }));
  } catch {
    // Then it is not kept.
  }
}

/** True if a message of the person's chat waits for money. */
export function isHeld(speaker: Speaker): boolean {
  return keptConversation(speaker).ticket !== null;
}
