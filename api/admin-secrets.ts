import { resealAll } from '../domain/sealed';
import { createSecrets } from '../domain/secrets';
import type { Db } from '../domain/sql';
import { ConfigError, loadConfig } from '../runtime/config';

/** `secrets reseal`: seals by the first key of SVC_SECRETS_KEY what another one has sealed. */
export async function runSecrets(
  db: Db,
  [verb]: string[],
  print: (text: string) => void,
): Promise<number> {
  if (verb !== 'reseal') throw new ConfigError('Usage: secrets reseal.');
  const { SVC_SECRETS_KEY } = loadConfig('admin');
  if (SVC_SECRETS_KEY === undefined)
    throw new ConfigError(
      'Set SVC_SECRETS_KEY as APIs have it: the new key, a comma, the old one.',
    );
  const { rows, unreadable } = await resealAll(db, createSecrets(SVC_SECRETS_KEY), 'terminal');
  print(`${rows} rows are sealed by the first key of SVC_SECRETS_KEY since now.`);
  for (const row of unreadable)
    print(`${row}: a secret in it opens under none of these keys. Enter it again, or add its key.`);
  return unreadable.length === 0 ? 0 : 1;
}
