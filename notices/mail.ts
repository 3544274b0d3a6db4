import { createTransport } from 'nodemailer';
import type { Outcome } from '../domain/notices/messages';
import { failed, wordsOf } from './network';
import type { Text } from './texts';

/** The operator's mail server, and whom mail is from. */
export interface MailServer {
  /** smtp:// or smtps://, with the user and password if it asks for them: NOTICE_SMTP_URL. */
  smtp_url: string;
  /** NOTICE_MAIL_FROM. */
  from: string;
}

const TIME_MS = 10_000;

interface Mail extends Text {
  /** The message's id: a mail that is sent twice has one name. */
  id: string;
  addresses: readonly string[];
  /** Who was refused for good in an earlier try, which told others. */
  refused?: readonly string[] | undefined;
  /** It asks its one address to confirm itself, which may be mistyped. */
  is_trial?: boolean | undefined;
}

/**
 * Sends one mail; within 10 s it is taken over, or was not sent. If the server takes it for some
 * and puts others off (a 4xx, as servers do that know nobody yet), it is `refused` with those as
 * `put_off`: the next try is for them alone. Never throws.
 */
export async function sendMail(
  { id, addresses, refused = [], is_trial = false, ...text }: Mail,
  server: MailServer | undefined,
): Promise<Outcome> {
  if (server === undefined) return failed('The operator has set no mail server: NOTICE_SMTP_URL.');
  if (addresses.length === 0)
    return { outcome: 'refused', status: null, error: 'No recipient is confirmed.' };
  const transport = createTransport(server.smtp_url, {
    connectionTimeout: TIME_MS,
    greetingTimeout: TIME_MS,
    socketTimeout: TIME_MS,
    dnsTimeout: TIME_MS,
    // What is written in a mail is no file and no address to fetch.
    disableFileAccess: true,
    disableUrlAccess: true,
  } as never);
  const signal = AbortSignal.timeout(TIME_MS);
  try {
    const sent = await transport.sendMail({
      from: server.from,
      to: addresses.map((address) => ({ name: '', address })),
      messageId: `<${id}@notices.svc>`,
      subject: text.title,
      text: plainText(text),
      html: htmlText(text),
      signal,
    });
    return outcomeOf(sent, refused);
  } catch (error) {
    const { responseCode: status, command } = error as { responseCode?: number; command?: string };
    if (signal.aborted) return failed('The mail server did not take it within 10 seconds.');
    if (status === undefined) return failed(wordsOf(error));
    const isForGood = status >= 550 && status < 560;
    // What is said of an address that nobody has confirmed says nothing of the server.
    const isRefused = isForGood || (is_trial && command === 'RCPT TO');
    const outcome = isRefused ? 'refused' : 'failed';
    return { outcome, status, error: `The mail server answered ${status}.` };
  } finally {
    transport.close();
  }
}

interface Sent {
  rejectedErrors?:
    | { recipient?: string | undefined; responseCode?: number | undefined }[]
    | undefined;
}

/** Of several recipients a server may take some: the log names those who were not told. */
function outcomeOf({ rejectedErrors = [] }: Sent, refused_before: readonly string[]): Outcome {
  const addressesOf = (some: typeof rejectedErrors) => some.map(({ recipient = '' }) => recipient);
  const late = rejectedErrors.filter(({ responseCode = 0 }) => responseCode < 500);
  const put_off = addressesOf(late);
  const last = rejectedErrors.filter((one) => !late.includes(one));
  const refused = [...refused_before, ...addressesOf(last)];
  const words = [
    refused.length > 0 && `The mail server refused ${refused.join(', ')}.`,
    put_off.length > 0 && `The mail server put off ${put_off.join(', ')}.`,
  ].filter(Boolean);
  const error = words.length > 0 ? words.join(' ') : null;
  const [first] = late;
  if (first === undefined) return { outcome: 'delivered', status: 250, error };
  const status = first.responseCode ?? null;
  return { outcome: 'refused', status, error, left: { put_off, refused } };
}

function plainText({ title, facts, links }: Text): string {
  const lines = [
    title,
    '',
    ...facts.map(({ label, value }) => `${label}: ${value}`),
    '',
    ...links.map(({ label, url }) => `${label}: ${url}`),
  ];
  return lines.join('\n');
}

function htmlText({ title, facts, links }: Text): string {
  const rows = facts.map(
    ({ label, value }) => `<tr><td>${forHtml(label)}</td><td>${forHtml(value)}</td></tr>`,
  );
  const anchors = links.map(
    ({ label, url }) => `<p><a href="${forHtml(url)}">${forHtml(label)}</a></p>`,
  );
  return `<h3>${forHtml(title)}</h3><table>${rows.join('')}</table>${anchors.join('')}`;
}

const htmlMarks: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

function forHtml(text: string): string {
  return text.replace(/[&<>"']/g, (mark) => htmlMarks[mark] as string);
}
