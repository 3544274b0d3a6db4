import type { IncomingHttpHeaders } from 'node:http';
import { AppError } from '../../domain/errors';
import { cut } from '../../domain/texts';

const loopback = /^(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?$/i;

/** What may ask, by the headers that a browser sets and a page cannot. */
interface Admitted {
  allowed_origins: readonly string[];
  /** Empty is any. */
  allowed_hosts?: readonly string[];
}

/**
 * Refuses pages of elsewhere. A page on this machine may call a gateway on this machine, by a name
 * of this machine: one that was led here by another name (DNS rebinding) shows it in Host.
 */
export function checkOrigin(headers: IncomingHttpHeaders, admitted: Admitted): void {
  const { origin, host = '' } = headers;
  const { allowed_origins, allowed_hosts = [] } = admitted;
  if (allowed_hosts.length > 0 && !allowed_hosts.includes(host)) {
    throw refused(`This gateway does not answer to the name "${shown(host)}".`);
  }
  if (origin === undefined || allowed_origins.includes(origin)) return;
  if (loopback.test(hostOf(origin)) && loopback.test(host)) return;
  throw refused(`Pages of "${shown(origin)}" may not call this gateway.`);
}

function hostOf(origin: string): string {
  return /^https?:\/\/([^/]*)$/i.exec(origin)?.[1] ?? '';
}

const SHOWN_CHARACTERS = 100;

function shown(text: string): string {
  return cut(text, SHOWN_CHARACTERS);
}

function refused(message: string): AppError {
  return new AppError('browser_not_allowed', message);
}
