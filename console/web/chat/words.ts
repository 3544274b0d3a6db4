import { Refusal } from '../api/client';

const nothing_charged = 'Nothing was sent to the model, and nothing was charged.';

/** What a refusal means for the person who chats, and what they can do. */
export function refusalWords(error: unknown): { title: string; words: string } {
  if (!(error instanceof Refusal))
    return { title: 'That did not work', words: 'This is a fault of the console. Try again.' };
  const { code, message, details, retry_after_s } = error;
  const policy = typeof details.policy === 'string' ? ` (rule ${details.policy})` : '';
  switch (code) {
    case 'input_blocked':
      return {
        title: 'Your organization does not let this message out',
        words: `It holds something that a rule forbids${policy}. ${nothing_charged} Change it and send it again.`,
      };
    case 'output_blocked':
      return {
        title: 'Your organization holds this answer back',
        words: `It holds something that a rule forbids${policy}. The provider's work is charged. Ask in another way.`,
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
    case 'rate_limit_exceeded':
      return {
        title: 'Too many calls at once',
        words: `${nothing_charged} Try again in ${Math.ceil(retry_after_s ?? 1)} seconds.`,
      };
    case 'permission_denied':
      return { title: 'You may not chat here', words: message };
    default:
      return { title: 'That did not work', words: message };
  }
}
