import { z } from 'zod';
import { permission } from '../http/access';

export const billing = permission('org:billing');

/** The address of a webhook, or that of an incoming webhook of Slack or Teams. */
export const url = z
  .url({ protocol: /^https?$/, error: 'must be an address such as https://example.com/hook' })
  .max(2_000);

export const secret = z
  .string()
  .regex(
    /^whsec_[A-Za-z0-9+/]{32,88}={0,2}$/,
    'must be whsec_ and 24 to 64 bytes in base64, as the Standard Webhooks write it',
  );
