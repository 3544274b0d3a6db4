import { actAs } from './audit-events';
import { isUnreadableSecret, type Secrets } from './secrets';
import { type Db, many, maybe } from './sql';

/** What a sealed text belongs to, by the kind of its row: it opens there only. */
export const owner_of = {
  payment_provider: (name: string, field: string) => `payment_providers/${name}/${field}`,
  identity_issuer: (id: string) => `identity issuer ${id}`,
  provider_key: (id: string) => `provider key ${id}`,
  export_destination: (id: string, field: string) => `export destination ${id} ${field}`,
  notice_destination: (id: string, field: string) => `notice destination ${id} ${field}`,
} as const;

interface Place {
  table: string;
  id: string;
  ownerOf: (id: string, field: string) => string;
  /** Columns of one ciphertext each, with the field that it is sealed as. */
  columns?: Record<string, string>;
  /** The column `credentials` is ciphertext by field. */
  is_by_field?: true;
}

const places: readonly Place[] = [
  {
    ...{ table: 'payment_providers', id: 'name', ownerOf: owner_of.payment_provider },
    columns: { webhook_secret: 'webhook_secret', previous_webhook_secret: 'webhook_secret' },
    is_by_field: true,
  },
  {
    ...{ table: 'identity_issuers', id: 'id', ownerOf: owner_of.identity_issuer },
    columns: { credentials: 'credentials' },
  },
  ...(['provider_key', 'export_destination', 'notice_destination'] as const).map(
    (kind) =>
      ({ table: `${kind}s`, id: 'id', ownerOf: owner_of[kind], is_by_field: true }) as const,
  ),
];

/** What a resealing came to. */
export interface Resealed {
  /** Rows whose secrets are sealed by the first key since. */
  rows: number;
  /** `<table> <id>` of rows that hold a secret which no key opens. */
  unreadable: string[];
}

/**
 * Seals each stored secret by the first key that another one has sealed, a row in a transaction. A
 * secret that no key opens stays as it is.
 */
export async function resealAll(db: Db, secrets: Secrets, actor: string): Promise<Resealed> {
  const result: Resealed = { rows: 0, unreadable: [] };
  for (const place of places) {
    const { table, id } = place;
    for (const { key } of await many<{ key: string }>(db, `select ${id} as key from ${table}`)) {
      const outcome = await db.transaction(async (trx) => {
        await actAs(trx, { actor });
        return resealRow(trx, secrets, place, key);
      });
      if (outcome.is_changed) result.rows += 1;
      if (outcome.is_unreadable) result.unreadable.push(`${table} ${key}`);
    }
  }
  return result;
}

type Row = Record<string, string | Record<string, string> | null>;

async function resealRow(trx: Db, secrets: Secrets, place: Place, key: string) {
  const { table, id, ownerOf, columns = {}, is_by_field } = place;
  const outcome = { is_changed: false, is_unreadable: false };
  const shown = [...Object.keys(columns), ...(is_by_field ? ['credentials'] : [])];
  const row = await maybe<Row>(
    trx,
    `select ${shown.join(', ')} from ${table} where ${id} = :key for update`,
    { key },
  );
  const resealed = async (sealed: string, field: string) => {
    const given = await secrets.reseal(sealed, ownerOf(key, field)).catch((error) => {
      if (!isUnreadableSecret(error)) throw error;
      outcome.is_unreadable = true;
      return sealed;
    });
    outcome.is_changed ||= given !== sealed;
    return given;
  };
  const changes: Record<string, string> = {};
  for (const [name, value] of Object.entries(row ?? {}))
    if (typeof value === 'string') changes[name] = await resealed(value, columns[name] as string);
    else if (value !== null) {
      const fields: Record<string, string> = {};
      for (const [field, sealed] of Object.entries(value))
        fields[field] = await resealed(sealed, field);
      changes[name] = JSON.stringify(fields);
    }
  if (outcome.is_changed) await trx(table).where(id, key).update(changes);
  return outcome;
}
