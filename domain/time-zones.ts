import { AppError } from './errors';
import { type Db, maybe, one } from './sql';

/**
 * Throws 422 unless every clock of the product knows the name: no abbreviations, and no rules of a
 * zone's own.
 */
export async function requireZone(db: Db, name: string): Promise<void> {
  const known = /^(UTC|[A-Z][A-Za-z_+-]+(\/[A-Za-z0-9_+-]+)+)$/.test(name) && isKnown(name);
  if (known && (await maybe(db, 'select 1 from pg_timezone_names where name = :name', { name })))
    return;
  throw new AppError(
    'invalid_field',
    'time_zone must be the IANA name of a time zone, such as UTC, Europe/Berlin or Pacific/Auckland.',
    { param: 'time_zone' },
  );
}

function isKnown(time_zone: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: time_zone });
    return true;
  } catch {
    return false;
  }
}

/** The first moment of a day such as 2027-01-31 in a zone, or the instant that is given. */
export async function momentIn(db: Db, time_zone: string, given: string): Promise<Date> {
  if (given.includes('T')) return new Date(given);
  const { at } = await one<{ at: Date }>(
    db,
    'select :given::date::timestamp at time zone :time_zone as at',
    { given, time_zone },
  );
  return at;
}
