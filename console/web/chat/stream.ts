import { ownHeaders, Refusal, told } from '../api/client';
import type { ChatMessage } from './message';
import { refusalWords } from './words';

const PATH = '/api/chat/messages';

interface Chunk {
  choices?: { delta?: { content?: string | null }; finish_reason?: string | null }[];
  usage?: { cost?: number; cost_details?: { currency?: string } } | null;
  error?: Record<string, unknown>;
  /** The mark of the end, which has no JSON. */
  is_done?: true;
}

/**
 * Asks the gateway through the console's server; `onGrowth` hears the answer as far as it has come,
 * first without a word once its call is known. Resolves with the answer and its cost; one that
 * breaks off behind its first words says why (`ended`), as what came is paid. Throws a Refusal if
 * no word came; of a call that is not paid it has `cost_ticket`.
 */
export async function ask(
  question: { model: string; messages: readonly ChatMessage[]; ticket_id?: string | undefined },
  onGrowth: (made: ChatMessage) => void,
  signal: AbortSignal,
): Promise<ChatMessage> {
  const { model, ticket_id } = question;
  const messages = question.messages.map(({ role, content }) => ({ role, content }));
  const answer = await fetch(PATH, {
    method: 'POST',
    headers: { ...ownHeaders(), 'content-type': 'application/json' },
    body: JSON.stringify({ model, messages, ticket_id }),
    signal,
  }).catch((error: Error) => {
    if (error.name === 'AbortError') throw error;
    throw new Refusal(0, { error: { message: 'The console cannot be reached. Try again.' } });
  });
  if (!answer.ok || answer.body === null)
    throw told(
      new Refusal(answer.status, await answer.json().catch(() => ({})), answer.headers),
      PATH,
    );
  const request_id = answer.headers.get('x-svc-request-id');
  const made: ChatMessage = { role: 'assistant', content: '', model, request_id };
  onGrowth({ ...made });
  const failure = await readInto(made, answer.body, onGrowth);
  signal.throwIfAborted();
  if (failure === undefined) return made;
  const refusal = new Refusal(answer.status, { error: failure, request_id });
  if (made.content === '') throw refusal;
  return { ...made, ended: { how: 'broke off', words: refusalWords(refusal).words } };
}

/** Reads an answer to its end; why it is not whole, as an error of the gateway. */
async function readInto(
  made: ChatMessage,
  body: ReadableStream<Uint8Array>,
  onGrowth: (made: ChatMessage) => void,
): Promise<object | undefined> {
  let is_whole = false;
  let failure: object | undefined;
  try {
    for await (const chunk of chunksOf(body)) {
      const [choice] = chunk.choices ?? [];
      // Some providers never say that a stream is done.
      if (chunk.is_done || choice?.finish_reason) is_whole = true;
      failure ??= chunk.error;
      const text = choice?.delta?.content ?? '';
      made.content += text;
      const { cost, cost_details } = chunk.usage ?? {};
      if (cost !== undefined)
        made.cost = { amount: cost, currency: cost_details?.currency ?? 'USD' };
      if (text !== '' || cost !== undefined) onGrowth({ ...made });
    }
  } catch {
    // The connection broke, or told something else than chunks: what came before stands.
  }
  return failure ?? (is_whole ? undefined : { message: broke_off });
}

const broke_off = 'The connection broke off before the answer had ended.';

/** The JSON of each server-sent event; `[DONE]` is one that says so. */
async function* chunksOf(body: ReadableStream<Uint8Array>): AsyncGenerator<Chunk> {
  const texts = body
    .pipeThrough(new TextDecoderStream() as never)
    .getReader() as ReadableStreamDefaultReader<string>;
  let rest = '';
  for (;;) {
    const { done, value } = await texts.read();
    if (done) return;
    const lines = (rest + value).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      if (!line.startsWith('data: ')) continue;
      const data = line.slice('data: '.length).trimEnd();
      yield data === '[DONE]' ? { is_done: true } : (JSON.parse(data) as Chunk);
    }
  }
}
