import { z } from 'zod';
import { permission } from '../http/access';

export const billing = permission('org:billing');

/** The address of a webhook, or that of an incoming webhook of Slack or Teams. */
export const url = z
  .url({ protocol: /^https?$/, error: 'must be an address such as https://example.com/hook' })
  .max(2_000);

const form = 'must be whsec_ and 24 to 64 bytes in base64, as the Standard Webhooks write it';
const written = /^whsec_[A-Za-z0-9+/]{32,88}={0,2}$/;

export const secret = z.string().regex(written, form).refine(isWritten, form);

/** True if it is what its bytes are written as: nothing is left out or cut, none is too many. */
function isWritten(given: string): boolean {
  const text = given.slice('whsec_'.length);
  const bytes = Buffer.from(text, 'base64');
  return bytes.length >= 24 && bytes.length <= 64 && bytes.toString('base64') === text;
}
