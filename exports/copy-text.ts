import type { Knex } from 'knex';
import { escapeLiteral } from 'pg';
import { to } from 'pg-copy-streams';
import type { CopyText } from '../domain/exports/copy-text';

/** COPY takes no bindings, so that they become literals of its statement. */
export const copyText: CopyText = async (db, sql, bindings) => {
  const text = sql.replace(/(?<!:):(\w+)/g, (_, name: string) => literal(bindings[name]));
  const client = db.client as Knex.Client;
  const session = await client.acquireConnection();
  try {
    const chunks: Buffer[] = [];
    for await (const chunk of session.query(to(`copy (${text}) to stdout`))) chunks.push(chunk);
    return Buffer.concat(chunks);
  } finally {
    await client.releaseConnection(session);
  }
};

function literal(value: unknown): string {
  if (value === null || value === undefined) return 'null';
  return escapeLiteral(value instanceof Date ? value.toISOString() : String(value));
}
