import { AppError } from '../../domain/errors';
import type { Funded, Identified } from '../call/call';
import type { Dlp, Filtered } from '../policy/dlp';
import { blocked } from '../stages/policies';
import { parseExact, printExact } from '../wire/exact';
import { hasMoreThan } from '../wire/scan';
import type { Frame } from '../wire/sse';
import { messagesIn } from './answers';
import { idKey, rpcErrors } from './messages';
import { filterWords, wordsIn } from './words';

/** Stands between the answers of a server and their client if a policy looks at answers. */
export interface AnswerGuard {
  /**
   * Events of a stream: as they came, redacted, or refusals in their place. Throws if one cannot be
   * read, or the refusal of a question to the client.
   */
  frames(frames: readonly Frame[]): Promise<Buffer>;
  /** A whole answer, or what is left of it. Throws the refusal of one that may not be given. */
  whole(text: string): Promise<string>;
}

// An event that was too long to be read cannot be looked at either.
const UNREAD_MAX_BYTES = 1_048_576;
// Quotes and commas. With 300,000 the look takes a third of a second, and would hold up other
// calls.
const SIGNS_MAX = 300_000;

/** `paid` are the calls of tools among the requests, by the keys of their ids. */
export function createGuard(
  call: Identified,
  paid: ReadonlyMap<string, Funded>,
): AnswerGuard | undefined {
  const { dlp, output } = call.snapshot.policies;
  if (dlp === undefined || !output.includes('dlp-filter')) return undefined;
  const refusalOf = (rule: string, ids: readonly string[]): AppError => {
    const whose = ids.map((id) => paid.get(idKey(id))).find((one) => one !== undefined);
    return blocked(whose ?? call, { policy: 'dlp-filter', rule }, 'output');
  };
  const checked = async (frame: Frame): Promise<Buffer> => {
    const { data, bytes } = frame;
    if (data === undefined) return withoutData(frame);
    const { rule, text } = await look(dlp, data);
    if (rule === undefined) return text === data && isPlain(bytes) ? bytes : reframed(bytes, text);
    const ids = answersIn(data);
    // A server would wait for its answer, and the client for the server.
    if (asks(data)) throw refusalOf(rule, ids);
    const request_id = call.ctx.state.request_id as string;
    const told = rpcErrors(refusalOf(rule, ids), { ids, request_id });
    return reframed(bytes, told.length > 1 ? `[${told.join(',')}]` : told[0]);
  };
  return {
    async frames(frames) {
      const passed: Buffer[] = [];
      for (const frame of frames) passed.push(await checked(frame));
      return Buffer.concat(passed);
    },
    async whole(given) {
      const { rule, text } = await look(dlp, given);
      if (rule === undefined) return text;
      throw refusalOf(rule, answersIn(given));
    },
  };
}

async function look(dlp: Dlp, text: string): Promise<Filtered> {
  if (hasMoreThan(SIGNS_MAX, text)) throw tooMuch();
  if (messagesIn(text).length > 0)
    return filterWords(dlp, { text, words: wordsIn(text, { is_answer: true }) });
  const { rule, values } = await filterWords(dlp, { text: '', words: [], values: [text] });
  return rule === undefined ? { text: values[0] as string } : { rule };
}

/** True if a server asks its client something. */
function asks(text: string): boolean {
  return messagesIn(text).some(({ id, method }) => id !== undefined && method !== undefined);
}

/** The ids of the requests that a text answers, in their own texts. */
function answersIn(text: string): string[] {
  return messagesIn(text, parseExact).flatMap(({ id, method }) =>
    id === undefined || method !== undefined ? [] : [printExact(id)],
  );
}

/** An event without data that was read. Throws if it is too long to have been read. */
export function withoutData({ bytes, is_tail }: Frame): Buffer {
  if (bytes.length > UNREAD_MAX_BYTES) {
    throw tooMuch();
  }
  return is_tail ? bytes : reframed(bytes, undefined);
}

function tooMuch(): AppError {
  return new AppError('upstream_failed', 'The server sent more at once than a policy can read.');
}

const line_ends = /\r\n|\n|\r/;
// A phrase has blanks, which none of these fields needs.
const known_field =
  /^(?:data(?::.*)?|event: ?[\w./-]{1,64}|id(?:: ?\S{0,256})?|retry: ?\d{1,9}|)$/s;
const kept_field = /^(?!data)[a-z]+:/;

/** True if an event has no fields besides those that a policy reads; comments are such fields. */
function isPlain(bytes: Buffer): boolean {
  return bytes
    .toString('utf8')
    .split(line_ends)
    .every((line) => known_field.test(line));
}

/** An event with other data, or with none. */
export function reframed(bytes: Buffer, data: string | undefined): Buffer {
  const kept = bytes
    .toString('utf8')
    .split(line_ends)
    .filter((line) => kept_field.test(line) && known_field.test(line));
  const lines = data?.split('\n').map((line) => `data: ${line}`) ?? [];
  if (kept.length + lines.length === 0) return Buffer.alloc(0);
  return Buffer.from([...kept, ...lines, '', ''].join('\n'));
}
