import { type Db, many } from '../../domain/sql';

/** What the audit finds broken; every suite that moves money ends with none. */
export function audit(db: Db): Promise<object[]> {
  return many(db, 'select * from audit()');
}
