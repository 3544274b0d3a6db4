import { newSseState, readFrames } from '../../wire/sse';
import { objectIn } from '../../wire/values';
import { messageReader } from '../messages';
import { type Measured, nothing_measured } from '../reader';
import type { Translation, Translator } from '../translation';
import { createTranslator, toCompletion } from './answer';
import { toMessages } from './request';

/** Chat completions spoken to a provider of messages. */
export const chatOverMessages: Translation = {
  upstream_path: '/v1/messages',
  request: toMessages,
  open: (is_stream) => (is_stream ? streamed() : whole()),
};

const nothing = Buffer.alloc(0);

function streamed(): Translator {
  const state = newSseState();
  const found: Measured = { ...nothing_measured };
  const readEvent = messageReader.openStream(found);
  // Its usage always comes; the meter behind hides it from a client who did not ask.
  const translator = createTranslator(found, { created: now(), tells_usage: true });
  return {
    push(chunk) {
      let text = '';
      for (const { data } of readFrames(state, chunk)) {
        const event = data === undefined ? undefined : objectIn(data);
        if (event === undefined) continue;
        readEvent(event);
        for (const translated of translator.translate(event)) text += `data: ${translated}\n\n`;
      }
      return text === '' ? nothing : Buffer.from(text);
    },
    end: () => nothing,
    // The translated answer gives its usage at its very end, the provider from its first event on.
    tell(measured) {
      measured.seen = found.seen;
      if (found.usage === undefined) return;
      measured.usage = found.usage;
      measured.is_usage_partial = found.is_usage_partial;
    },
  };
}

/** An answer that is no message passes as it came: the reader behind it makes the best of it. */
function whole(): Translator {
  const chunks: Buffer[] = [];
  const found: Measured = { ...nothing_measured };
  return {
    push(chunk) {
      chunks.push(chunk);
      return nothing;
    },
    end() {
      const bytes = Buffer.concat(chunks);
      const message = objectIn(bytes.toString('utf8'));
      if (message === undefined) return bytes;
      messageReader.readAnswer(message, found);
      return Buffer.from(JSON.stringify(toCompletion(message, found, now())));
    },
    tell(measured) {
      measured.seen = found.seen;
    },
  };
}

/** Seconds since 1970, the time at which a completion was made. */
function now(): number {
  return Math.floor(Date.now() / 1_000);
}
