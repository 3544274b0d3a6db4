import { randomBytes } from 'node:crypto';
import { AppError } from '../../domain/errors';
import type { Credentials } from '../../domain/notices/destinations';
import type { Channel } from '../../domain/notices/kinds';
import { resolve } from '../../notices/network';
import type { NoticeReach } from '../http/route';

interface Given {
  channel: Channel;
  url?: string | undefined;
  secret?: string | undefined;
}

/** Where a destination is, as it is kept; what is secret of it is apart. */
export interface Target {
  url: string | null;
  host: string;
  credentials: Credentials;
}

const SECRET_BYTES = 32;

/** The secret of a webhook, as the Standard Webhooks write it. */
export function newSecret(): string {
  return `whsec_${randomBytes(SECRET_BYTES).toString('base64')}`;
}

/**
 * Judges the address of a webhook or channel as it is now; each message judges it again. Throws
 * `invalid_field` for one that the operator does not allow.
 */
export async function targetOf(
  { channel, url, secret }: Given & { url: string },
  reach: NoticeReach,
): Promise<Target> {
  const to = new URL(url);
  if (to.username !== '' || to.password !== '') throw refused('may not hold a user name.');
  if (channel === 'webhook') {
    if (secret === undefined)
      throw new AppError('invalid_field', 'An address that changes needs its secret again.', {
        param: 'secret',
      });
  } else {
    if (secret !== undefined)
      throw new AppError('invalid_field', 'Only a webhook has a secret.', { param: 'secret' });
    if (!reach.chat_hosts.includes(to.hostname))
      throw refused(`is at ${to.hostname}, which the operator does not list: NOTICE_CHAT_HOSTS.`);
  }
  const resolved = await resolve(to, reach);
  if ('problem' in resolved) throw refused(`cannot be used. ${resolved.problem}`);
  return channel === 'webhook'
    ? { url: to.href, host: to.host, credentials: { secret } }
    : { url: null, host: to.host, credentials: { url: to.href } };
}

function refused(why: string): AppError {
  return new AppError('invalid_field', `url ${why}`, { param: 'url' });
}
