import type { z } from 'zod';
import { AppError } from '../../domain/errors';
import { type OpenProviderKey, openFor } from '../../domain/gateways/provider-keys';
import { isUnreadableSecret } from '../../domain/secrets';
import { requireGatewayVersion } from '../http/access';
import type { Ctx } from '../http/route';
import type { providerKeyBody } from './bodies';

/** One key of a provider, opened for a gateway. Each time is a use, which the log tells of. */
export async function openKey(
  { db, secrets, principal, log, http }: Ctx,
  { org_id = '', provider = '', name }: z.infer<typeof providerKeyBody>,
): Promise<{ provider_key: OpenProviderKey | null }> {
  requireGatewayVersion(http);
  http.set('cache-control', 'no-store');
  const wanted = name === undefined ? { org_id, provider } : { name };
  const found = await openFor(db, secrets, wanted, principal.id).catch((error) => {
    if (!isUnreadableSecret(error)) throw error;
    log.error({ ...wanted, err: error }, 'a provider key cannot be opened: rotate it');
    throw new AppError('unavailable', 'This key of the provider cannot be opened. Rotate it.');
  });
  if (found === undefined) return { provider_key: null };
  const { provider_key_id, version } = found;
  log.info({ ...wanted, provider_key_id, version, key_id: principal.id }, 'a provider key is used');
  return { provider_key: found };
}
