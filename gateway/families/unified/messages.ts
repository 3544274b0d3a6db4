import { printExact } from '../../wire/exact';
import { itemsOf, membersOf } from '../../wire/scan';
import { objectIn } from '../../wire/values';
import { DEFAULT_MAX_COMPLETION_TOKENS } from '../caps';
import { messageReader } from '../messages';
import { isAnswer, type Measured, nothing_measured, type Told } from '../reader';
import type { Translation, Translator } from '../translation';
import { createTranslator, toCompletion } from './answer';
import { now, tellUsage, translateWhole } from './completion';
import { translateEvents } from './events';
import { toMessages } from './request';

/** Chat completions spoken to a provider of messages. */
export const chatOverMessages: Translation = {
  upstream_path: '/v1/messages',
  default_cap: DEFAULT_MAX_COMPLETION_TOKENS,
  request: (request, model) => printExact(toMessages(request, model)),
  open: (is_stream) => (is_stream ? streamed() : whole()),
};

function streamed(): Translator {
  const found: Measured = { ...nothing_measured };
  const readEvent = messageReader.openStream(found, 1);
  // Its usage always comes; the meter behind hides it from a client who did not ask.
  const translator = createTranslator(found, { created: now(), tells_usage: true });
  return translateEvents({
    translate(said, { data, event: name }) {
      const is_flat = name === 'error' && said.type !== 'error';
      const event = is_flat ? { type: 'error', error: said.error ?? said } : said;
      readEvent(event);
      const input = () => memberText(data as string, ['content_block', 'input']);
      return translator.translate(event, input);
    },
    end: () => [],
    // The translated answer gives its usage at its very end, the provider from its first event on.
    tell(measured) {
      measured.seen = found.seen;
      tellUsage(measured, found.usage, found.is_usage_partial);
    },
  });
}

/** An answer that is no message passes as it came: the reader behind it makes the best of it. */
function whole(): Translator {
  const found: Measured = { ...nothing_measured };
  let usage: Told | undefined;
  const translate = (bytes: Buffer) => {
    const text = bytes.toString('utf8');
    const message = objectIn(text);
    if (message === undefined) return bytes;
    messageReader.readAnswer(message, found);
    if (message.error != null || !isAnswer(found)) return bytes;
    usage = found.usage;
    return Buffer.from(JSON.stringify(toCompletion(message, inputsIn(text), found, now())));
  };
  return translateWhole(translate, (measured) => {
    measured.seen = found.seen;
    // A completion does not say of all that was written how long it is kept.
    tellUsage(measured, usage, false);
  });
}

/** The inputs of a message's content blocks in their own texts, by the places of the blocks. */
function inputsIn(text: string): (string | undefined)[] {
  const content = new Map(membersOf(text, text.indexOf('{'))).get('content');
  if (content === undefined) return [];
  const items = [...itemsOf(text, content.start)];
  return items.map(({ start, end }) => memberText(text.slice(start, end), ['input']));
}

/** The text of a member of a member of a JSON object, if there is one. */
function memberText(text: string, path: readonly string[]): string | undefined {
  let part: string | undefined = text.trim();
  for (const name of path) {
    if (!part?.startsWith('{')) return undefined;
    const member = new Map(membersOf(part, 0)).get(name);
    part = member && part.slice(member.start, member.end).trim();
  }
  return part;
}
