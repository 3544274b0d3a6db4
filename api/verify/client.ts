/** What a check found wrong, in a sentence for the person at the terminal. */
export class Fault extends Error {
  override name = 'Fault';
}

/** Nothing was answered in time. */
export class Late extends Fault {
  override name = 'Late';
}

/** Something that a check wrote may be left behind. */
export class Left extends Fault {
  override name = 'Left';
}

/** What a check could not look at, and why: neither good nor bad. */
export class NotChecked extends Error {
  override name = 'NotChecked';
}

export interface Answer {
  status: number;
  // biome-ignore lint/suspicious/noExplicitAny: answers are JSON of many shapes, and each check reads its own.
  body: any;
}

const ANSWER_MS = 10_000;

interface Sent {
  key?: string;
  body?: object;
  headers?: Record<string, string>;
  /** How long an answer may take. */
  within_ms?: number;
}

/** One request, answered with JSON. Throws a Fault if nothing answers within 10 s, or as told. */
export async function ask(
  method: 'GET' | 'POST' | 'DELETE',
  url: string,
  { key, body, headers, within_ms = ANSWER_MS }: Sent = {},
): Promise<Answer> {
  try {
    const response = await fetch(url, {
      method,
      headers: {
        ...(key && { authorization: `Bearer ${key}` }),
        ...(body && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(within_ms),
    });
    const text = await response.text();
    return { status: response.status, body: jsonIn(text) };
  } catch (error) {
    const { name, cause, message } = error as Error & { cause?: { code?: string } };
    if (name === 'TimeoutError')
      throw new Late(`${method} ${url} has no answer within ${within_ms / 1_000} s.`);
    throw new Fault(`${method} ${url} has no answer (${cause?.code ?? message}).`);
  }
}

/** The body of an answer that must be good. Throws a Fault that says how it was not. */
export async function read(...request: Parameters<typeof ask>): Promise<Answer['body']> {
  const { status, body } = await ask(...request);
  if (status >= 200 && status < 300) return body;
  const [method, url] = request;
  throw new Fault(`${method} ${url} answers ${status}: ${body?.error?.message ?? 'no words'}`);
}

/** `1 gateway`, `2 gateways` */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
