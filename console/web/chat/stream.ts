import { ownHeaders, Refusal } from '../api/client';

/** One message of a conversation, and of an answer what it cost. */
export interface ChatMessage {
  role: 'user' | 'assistant';
  content: string;
  model?: string;
  cost?: { amount: number; currency: string } | undefined;
  request_id?: string | null;
}

/** A call that no wallet covers, as the gateway tells it. */
export interface HeldTicket {
  id: string;
  estimated_cost: number;
  shortfall: number;
  currency: string;
  expires_at: string;
}

interface Chunk {
  choices?: { delta?: { content?: string | null } }[];
  usage?: { cost?: number; cost_details?: { currency?: string } } | null;
  error?: Record<string, unknown>;
}

/**
 * Asks the gateway through the console's server; `onText` hears the answer grow. Resolves with the
 * whole answer and its cost. Throws a Refusal; of a call that is not paid it has `cost_ticket`.
 */
export async function ask(
  question: { model: string; messages: readonly ChatMessage[]; ticket_id?: string | undefined },
  onText: (text: string) => void,
  signal: AbortSignal,
): Promise<ChatMessage> {
  const { model, ticket_id } = question;
  const messages = question.messages.map(({ role, content }) => ({ role, content }));
  const answer = await fetch('/api/chat/messages', {
    method: 'POST',
    headers: { ...ownHeaders(), 'content-type': 'application/json' },
    body: JSON.stringify({ model, messages, ticket_id }),
    signal,
  }).catch((error: Error) => {
    if (error.name === 'AbortError') throw error;
    throw new Refusal(0, { error: { message: 'The console cannot be reached. Try again.' } });
  });
  if (!answer.ok || answer.body === null)
    throw new Refusal(answer.status, await answer.json().catch(() => ({})), answer.headers);
  const request_id = answer.headers.get('x-svc-request-id');
  const made: ChatMessage = { role: 'assistant', content: '', model, request_id };
  for await (const chunk of chunksOf(answer.body)) {
    if (chunk.error) throw new Refusal(answer.status, { error: chunk.error, request_id });
    const text = chunk.choices?.[0]?.delta?.content ?? '';
    if (text !== '') {
      made.content += text;
      onText(made.content);
    }
    const { cost, cost_details } = chunk.usage ?? {};
    if (cost !== undefined) made.cost = { amount: cost, currency: cost_details?.currency ?? 'USD' };
  }
  return made;
}

/** The JSON of each server-sent event until `[DONE]`. */
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
      if (!line.startsWith('data: ') || line === 'data: [DONE]') continue;
      yield JSON.parse(line.slice('data: '.length)) as Chunk;
    }
  }
}
