import { type Db, many } from '../sql';

interface Broken {
  check: string;
  wallet_id: string | null;
  detail: string;
}

/** Proves every statement about money over all rows of one repeatable-read snapshot. */
export async function audit(db: Db): Promise<{ clean: boolean; broken: Broken[] }> {
  // One statement sees one snapshot.
  const broken = await many<Broken>(
    db,
    'select check_name as "check", wallet_id, detail from audit_9()',
  );
  return { clean: broken.length === 0, broken };
}
