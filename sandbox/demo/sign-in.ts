import { actAs } from '../../domain/audit-events';
import * as codes from '../../domain/people/one-time-codes';
import { openDatabase } from '../../runtime/database';
import type { Seeded } from './seed';

/** As long as somebody may take to find the line in their terminal. */
const LIFE_S = 86_400;

/** Who makes the codes of starts: another start voids them. */
const STARTER = 'start';

/** A one-time code that signs the demo's owner in; that of the start before is void. */
export async function signInCode(
  url: string,
  { organization_id: org_id, owner_id: user_id }: Seeded,
): Promise<string> {
  const db = openDatabase(url, 1, 'svc start');
  try {
    return await db.transaction(async (trx) => {
      await actAs(trx, { actor: 'terminal' });
      await codes.voidSignIns(trx, { org_id, user_id, created_by: STARTER });
      const by = { id: STARTER, user_id: null, scopes: [] };
      return (await codes.create(trx, { purpose: 'session', org_id, user_id, by, life_s: LIFE_S }))
        .code;
    });
  } finally {
    await db.destroy();
  }
}
