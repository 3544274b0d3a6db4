import type { Body } from '../wire/values';
import { chatParts } from './chat';
import { addContent, type Input, newInput, wrong } from './input';

/** The input of a moderation: a text, several, or parts, pictures among them. */
export function moderationInput(body: Body): Input {
  const given = body.input;
  if (typeof given !== 'string' && !(Array.isArray(given) && given.length > 0)) {
    throw wrong('input', '"input" must be a text, a list of texts, or a list of parts.');
  }
  const input = newInput();
  addContent(input, given, chatParts);
  return input;
}
