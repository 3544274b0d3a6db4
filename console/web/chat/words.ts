import { Refusal } from '../api/client';
import type { Ending } from './message';

const nothing_charged = 'Nothing was sent to the model, and nothing was charged.';

/** A refusal in words, and the page on which the person can do something about it. */
export interface Said {
  title: string;
  words: string;
  way?: { to: string; label: string };
}

/** What a refusal means for the person who chats, and what they can do. */
export function refusalWords(error: unknown): Said {
  if (!(error instanceof Refusal))
    return { title: 'That did not work', words: 'This is a fault of the console. Try again.' };
  const { code, message, details, retry_after_s, status } = error;
  const policy = typeof details.policy === 'string' ? ` (rule ${details.policy})` : '';
  // The model had begun, so what it did is charged, whatever its provider calls the failure.
  if (status >= 200 && status < 300 && code !== 'output_blocked')
    return { title: 'The answer broke off', words: message };
  switch (code) {
    case 'input_blocked':
      return {
        title: 'Your organization blocked this message',
        words: `It contains something that a rule forbids${policy}. ${nothing_charged} Change it and send it again.`,
      };
    case 'output_blocked':
      return {
        title: 'Your organization blocked this answer',
        words: `It contains something that a rule forbids${policy}. The provider's work is charged. Ask in another way.`,
      };
    case 'model_not_allowed':
      return {
        title: 'You may not use this model',
        words: `${nothing_charged} Choose another model, or ask an admin for this one.`,
      };
    case 'key_budget_exceeded':
      return { title: 'A budget is used up', words: `${message} ${nothing_charged}` };
    case 'ticket_denied':
      return { title: 'Your call was denied', words: `${message} ${nothing_charged}` };
    case 'ticket_expired':
      return {
        title: 'Nobody decided in time',
        words: `${nothing_charged} Send the message again to ask anew.`,
      };
    case 'ticket_redeemed':
      return {
        title: 'This message was asked already',
        words:
          "Its ticket has paid for that call, and the model's work is charged. Send the message again for a new call, with a cost of its own.",
      };
    case 'ticket_owner_differs':
      return {
        title: 'This ticket belongs to an earlier sign-in',
        words: `${nothing_charged} Send the message again: it asks for a new ticket.`,
      };
    case 'rate_limit_exceeded':
      return {
        title: 'Too many calls at once',
        words: `${nothing_charged} Try again in ${Math.ceil(retry_after_s ?? 1)} seconds.`,
      };
    case 'living_keys_exceeded':
      return {
        title: 'You have reached your limit of keys',
        words:
          'The chat makes a key for you while you are signed in, and your organization lets you have no more of them. Revoke one that you do not use, and open the chat again.',
        way: { to: '/keys', label: 'To your keys' },
      };
    case 'permission_denied':
      return { title: 'You may not chat here', words: message };
    default:
      return { title: 'That did not work', words: message };
  }
}

/** How an answer ended that a person stopped. */
export const stopped: Ending = {
  how: 'stopped',
  words: "You stopped it. The model's work is charged.",
};

/** How an answer ended whose page was left. */
export const left: Ending = {
  how: 'stopped',
  words: "You left the chat before it had ended. The model's work is charged.",
};

const nothing_lost = 'Nothing that you wrote is lost. If the model had begun, its work is charged.';

/** Of a question that was stopped, or left, before a word of its answer came. */
export const unanswered = {
  stopped: { title: 'Stopped before an answer came', words: nothing_lost },
  left: { title: 'You left before an answer came', words: nothing_lost },
} as const;
