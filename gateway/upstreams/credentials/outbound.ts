export type Headers = Readonly<Record<string, string>>;

/** What a signature is made over. */
export interface Outbound {
  method: 'POST' | 'GET';
  /** Raw, with its query, as it goes over the wire. */
  path: string;
  body: Buffer;
}

/** How a target is told who asks. */
export interface Credential {
  /** Headers that are the same in each request. */
  headers: Headers;
  /**
   * The headers of one attempt. Absent if `headers` are all. Rejects if there is no credential at
   * present.
   */
  headersFor?(outbound: Outbound): Headers | Promise<Headers>;
  /**
   * The provider refused what these headers say. True if another attempt may pass: there may be a
   * newer credential.
   */
  refuse?(sent: Headers): boolean;
}

/** The head of an answer, as far as it speaks of a credential. */
interface Answered {
  status: number;
  headers: Readonly<Record<string, string | string[] | undefined>>;
}

/** True if a refusal speaks of the credential that was sent, and another one may be taken. */
export function refusesCredential({ status, headers }: Answered): boolean {
  if (status === 401) return true;
  const type = String(headers['x-amzn-errortype'] ?? '');
  return status === 403 && /^(?:ExpiredToken|UnrecognizedClient)/.test(type);
}

/**
 * What is answered to a request with the headers that say who asks. A credential that is no longer
 * taken is renewed, and the request sent once more.
 */
export async function answerTo<Answer extends Answered>(
  credential: Credential,
  outbound: Outbound,
  send: (signed: Headers | undefined) => Promise<Answer>,
): Promise<Answer> {
  const signed = await credential.headersFor?.(outbound);
  const answer = await send(signed);
  const is_stale =
    signed !== undefined && refusesCredential(answer) && credential.refuse?.(signed) === true;
  return is_stale ? send(await credential.headersFor?.(outbound)) : answer;
}

const SHOWN_CHARACTERS = 300;

/** A message of a failure for the log, without what looks like a token or a key. */
export function withoutTokens(message: string): string {
  return (
    message
      .slice(0, SHOWN_CHARACTERS)
      .replaceAll(/\b(?:eyJ|ya29\.|ASIA|AKIA|ABSK|AIza|sk-|gsk_|xai-)[\w.+/=-]+/g, '[credential]')
      .replaceAll(
        /(Bearer |(?:key|secret|token|password|assertion)["']?\s*[=:]\s*["']?)[^\s"'&,]{6,}/gi,
        '$1[credential]',
      )
      // What is as long and as mixed as no word is.
      .replaceAll(/\b(?=[\w+/=-]*\d)(?=[\w+/=-]*[A-Za-z])[\w+/=-]{32,}/g, '[credential]')
  );
}

// Shorter ones are words that a message may hold by chance.
const SECRET_CHARACTERS = 6;

/**
 * What no client may read of a request: its headers that say who asks, and the secrets of its
 * target's settings, as they are and as they stand in an address.
 */
export function secretsIn(headers: Headers, of_settings: readonly string[]): string[] {
  const of_headers = Object.entries(headers)
    .filter(([name]) => /authorization|key|token/.test(name))
    .map(([, value]) => value);
  return [...of_headers, ...of_settings]
    .map((value) => value.replace(/^Bearer /i, ''))
    .filter(({ length }) => length >= SECRET_CHARACTERS)
    .flatMap((value) => [...new Set([value, encodeURIComponent(value)])]);
}
