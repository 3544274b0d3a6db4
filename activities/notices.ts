import { setTimeout as sleep } from 'node:timers/promises';
import * as destinations from '../domain/notices/destinations';
import { type FullNotice, noticesOf } from '../domain/notices/full-notices';
import * as links from '../domain/notices/links';
import * as messages from '../domain/notices/messages';
import * as recipients from '../domain/notices/recipients';
import { isUnreadableSecret, type Secrets } from '../domain/secrets';
import { type Db, withRetry } from '../domain/sql';
import { slackMessage, teamsFailure, teamsMessage } from '../notices/chat';
import { type MailServer, sendMail } from '../notices/mail';
import { failed, post, type Reach } from '../notices/network';
import { type Text, textOf } from '../notices/texts';
import { isClosed } from '../notices/titles';
import { webhookPost } from '../notices/webhook';

/** How notices leave this process. */
export interface NoticeWays extends Reach {
  /** The address of the API as people reach it, for links: API_PUBLIC_URL. */
  public_url: string | undefined;
  /** That of the console, whose pages are linked in place of the API's: CONSOLE_ORIGIN. */
  console_url?: string | undefined;
  mail: MailServer | undefined;
  /** The pause after a first failed try; 5 s if absent. */
  first_pause_ms?: number | undefined;
}

interface Parts {
  db: Db;
  secrets: Secrets;
  ways: NoticeWays;
}

/** A look at a destination, after a pause that leaves a burst time to grow. */
export interface Look {
  destination_id: string;
  pause_ms: number;
}

type Sending = Parts & { to: destinations.OpenDestination };

const FIRST_PAUSE_MS = 5_000;
/** Longer than a try takes; what a dead worker had taken is free again then. */
const LEASE_S = 20;
const NOTICES_SHOWN_MAX = 100;

/**
 * One look at a destination: notices become messages, those that are due are tried once, and the
 * rows say how each went. Returns when to look again, null if nothing waits.
 */
export async function sendNotices(
  parts: Parts,
  { destination_id, pause_ms }: Look,
): Promise<{ wait_ms: number | null; summary: string }> {
  const { db, secrets } = parts;
  if (pause_ms > 0) await sleep(pause_ms);
  const taken = await withRetry(() => messages.take(db, destination_id, LEASE_S));
  if (taken.length > 0) {
    const opening = destinations.open(db, secrets, destination_id);
    const told = await Promise.allSettled(taken.map((message) => tell(parts, opening, message)));
    // Only then: a repetition must not send beside what is still on its way.
    for (const one of told) if (one.status === 'rejected') throw one.reason;
  }
  return {
    wait_ms: await withRetry(() => messages.dueIn(db, destination_id)),
    summary: await messages.summary(db, destination_id),
  };
}

async function tell(
  parts: Parts,
  opening: Promise<destinations.OpenDestination>,
  message: messages.TakenMessage,
): Promise<void> {
  const { db, ways } = parts;
  let sent_to: string | null = null;
  const outcome = await opening
    .then((to) => {
      sent_to = to.target;
      return send({ ...parts, to }, message);
    })
    .catch((error) => {
      if (isUnreadableSecret(error)) return failed(error.message);
      throw error;
    });
  const pause_ms = ways.first_pause_ms ?? FIRST_PAUSE_MS;
  await withRetry(() => messages.sent(db, message.id, { ...outcome, sent_to }, pause_ms));
  if (outcome.outcome === 'gone' && sent_to !== null)
    await destinations.disable(db, message.destination_id, {
      sent_to,
      reason: outcome.error ?? '',
    });
}

async function send(sending: Sending, message: messages.TakenMessage): Promise<messages.Outcome> {
  const { db, secrets, ways, to } = sending;
  if (to.is_removed) return failed('The destination was removed.');
  if (message.recipient_id !== null) {
    const { address, code } = await recipients.asked(db, secrets, message.recipient_id);
    const text = textOf('confirmation', 0, []);
    text.facts.push({ label: 'Code', value: code }, { label: 'Destination', value: to.id });
    return sendMail({ id: message.id, addresses: [address], is_trial: true, ...text }, ways.mail);
  }
  const notices = await noticesOf(db, message.id, NOTICES_SHOWN_MAX);
  if (to.channel === 'webhook') {
    const given = { ...message, notices, urlOf: (ticket?: string) => pageOf(ways, ticket) };
    return post({ url: to.url, ...webhookPost(to.secret ?? '', given, new Date()) }, ways);
  }
  const text = textOf(message.kind, message.notice_count, notices);
  text.links = await linksOf(sending, message, notices);
  if (to.channel === 'email') return mailTo(sending, message, text);
  if (!ways.chat_hosts.includes(new URL(to.url).hostname))
    return failed('The operator lets nothing be sent to this host: NOTICE_CHAT_HOSTS.');
  if (to.channel === 'slack')
    return post({ url: to.url, body: JSON.stringify(slackMessage(text)) }, ways);
  const body = JSON.stringify(teamsMessage(text));
  return post({ url: to.url, body, failureIn: teamsFailure }, ways);
}

/** To all recipients, or to those alone who were put off while others were told. */
async function mailTo(
  { ways, to }: Sending,
  { id, put_off, refused }: messages.TakenMessage,
  text: Text,
): Promise<messages.Outcome> {
  const late = put_off?.map((address) => address.toLowerCase());
  const addresses = to.addresses.filter((one) => late?.includes(one.toLowerCase()) ?? true);
  if (late && addresses.length === 0) {
    // They have been taken out meanwhile.
    const error = refused?.length ? `The mail server refused ${refused.join(', ')}.` : null;
    return { outcome: 'delivered', status: null, error };
  }
  const sent = await sendMail({ id, addresses, refused: refused ?? [], ...text }, ways.mail);
  // The server took it for the others: whom it puts off again is no fault of the destination.
  if (late && sent.outcome === 'failed' && sent.status !== null && sent.status < 500)
    return { ...sent, outcome: 'refused', left: { put_off: addresses, refused: refused ?? [] } };
  const is_refused = sent.outcome === 'refused' && sent.left === undefined;
  if (!late || !is_refused) return sent;
  // The others have it, and nobody is left to be told.
  const all = [...(refused ?? []), ...addresses].join(', ');
  return { ...sent, outcome: 'delivered', error: `The mail server refused ${all}.` };
}

/**
 * The page of a ticket or of all: in the console, where people sign in by their identity provider
 * too, else the API's. What stands behind # reaches no server and no log.
 */
function pageOf({ public_url, console_url }: NoticeWays, ticket_id?: string): string | null {
  if (console_url !== undefined)
    return `${console_url}/tickets${ticket_id === undefined ? '' : `/${ticket_id}`}`;
  if (public_url === undefined) return null;
  return `${public_url}/approvals${ticket_id === undefined ? '' : `#ticket=${ticket_id}`}`;
}

/** Of one ticket: its page, and a link for each verdict while it is open. Of many: the inbox. */
async function linksOf(
  { db, secrets, ways }: Sending,
  message: messages.TakenMessage,
  notices: readonly FullNotice[],
): Promise<Text['links']> {
  const inbox = pageOf(ways);
  if (inbox === null || !message.kind.startsWith('ticket_')) return [];
  const [notice] = message.notice_count === 1 ? notices : [];
  const ticket_id = notice?.cost_ticket_id;
  if (!ticket_id) return [{ label: 'Open the inbox', url: inbox }];
  const open = { label: 'Open the ticket', url: pageOf(ways, ticket_id) as string };
  if (message.kind !== 'ticket_created' || isClosed(notice) || ways.public_url === undefined)
    return [open];
  const page = `${ways.public_url}/approvals`;
  const linkTo = (verdict: 'approved' | 'denied') =>
    links.make(db, secrets, { message_id: message.id, ticket_id, verdict });
  const [approve, deny] = [await linkTo('approved'), await linkTo('denied')];
  if (approve === undefined || deny === undefined) return [open];
  return [
    { label: 'Approve', url: `${page}#link=${approve}`, style: 'primary' },
    { label: 'Deny', url: `${page}#link=${deny}`, style: 'danger' },
    open,
  ];
}
