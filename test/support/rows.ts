import { type Db, many } from '../../domain/sql';

/** Every row of every table, as text: where no secret may stand. */
export async function everyRow(db: Db): Promise<string> {
  const tables = await many<{ name: string }>(
    db,
    `select c.relname as name from pg_class c where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace`,
  );
  const texts = await Promise.all(
    tables.map(async ({ name }) =>
      JSON.stringify(await many(db, `select to_jsonb(t)::text as row from ${name} t`)),
    ),
  );
  return texts.join('\n');
}
