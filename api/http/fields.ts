import codes from 'currency-codes';
import { z } from 'zod';
import { group_pattern, group_rule } from '../../domain/gateways/groups';
import { toNanos } from '../../domain/money';
import { providerNames } from '../../domain/payments/currencies';

/**
 * A schema for each member of a body or answer: the compiler asks for all of them and for no other.
 */
export type Members<Body> = { [member in keyof Body]-?: z.ZodType<Body[member]> };

// The kinds of field that several route tables share.

export const id = z.string().min(1).max(200);
/** An id that a payment provider made. */
export const providerId = z.string().min(1).max(255);
export const text = z.string().max(1_000);
export const name = z.string().trim().min(1, 'must not be empty').max(200);
export const flag = z.boolean();
/** A group of gateways: their GATEWAY_GROUP. */
export const gatewayGroup = z.string().regex(group_pattern, group_rule);

export const paymentProvider = z.enum(providerNames).describe('The payment provider.');

export const currency = z
  .string()
  .regex(/^[A-Z]{3}$/, 'must be an ISO 4217 currency code such as USD')
  .refine((code) => codes.code(code) !== undefined, 'must be an ISO 4217 currency code');

/** A JSON number of major units, zero or more, read as nanos. */
export function amount(param: string) {
  return z
    .number()
    .min(0)
    .transform((units) => toNanos(units, param));
}

/** A JSON number of major units above zero, read as nanos. */
export function positiveAmount(param: string) {
  return z
    .number()
    .positive('must be above 0')
    .transform((units) => toNanos(units, param));
}

/** What prices are multiplied with, 0 to `max`: exact, as the ledger reckons with it. */
export function factor(max: number) {
  return z
    .number()
    .min(0)
    .max(max)
    .refine((given) => /^\d+(?:\.\d{1,6})?$/.test(String(given)), {
      error: 'may have at most 6 digits behind the point',
    });
}

/** The factor of an own key of a provider. */
export const priceFactor = factor(100);

const YEAR_10000 = Date.UTC(10_000, 0);

/** An ISO 8601 instant; a bare date is midnight UTC. */
export const instant = z
  .union(
    [z.iso.datetime({ offset: true }), z.iso.date()],
    'must be an ISO 8601 time such as 2027-01-31T00:00:00Z',
  )
  .transform((given) => new Date(given))
  .refine((time) => time.getTime() >= 0, 'must not lie before 1970')
  .refine((time) => time.getTime() < YEAR_10000, 'must not lie after 9999');

/** A day such as 2027-01-31, which begins where its zone says, or an ISO 8601 instant, as UTC. */
export const moment = z
  .union(
    [z.iso.datetime({ offset: true }), z.iso.date()],
    'must be a day such as 2027-01-31, or an ISO 8601 time such as 2027-01-31T00:00:00Z',
  )
  .refine((given) => Date.parse(given) >= 0, 'must not lie before 1970')
  .refine((given) => Date.parse(given) < YEAR_10000, 'must not lie after 9999')
  .refine((given) => !/[.]\d{10}/.test(given), 'must have at most 9 digits below a second')
  .transform(inUtc);

/** ISO 8601 knows offsets that PostgreSQL does not. What is below a second stays as it is. */
function inUtc(given: string): string {
  if (!given.includes('T')) return given;
  const fraction = /[.]\d+/.exec(given)?.[0] ?? '';
  return new Date(given.replace(fraction, '')).toISOString().replace('.000', fraction);
}

/** The pages of a ledger: `page` from 1, `per_page` 50 by default, 200 at most. */
export const ledgerPage = {
  page: z.coerce.number<number>().int().min(1).max(1_000_000).default(1),
  per_page: z.coerce.number<number>().int().min(1).max(200).default(50),
};

/** The pages of every other list, which may be those of one instant. */
export const page = { ...ledgerPage, as_of: instant.optional() };

/**
 * The parts of a list that grows: its pages, or what follows a cursor, in one of these orders;
 * `created_at` is always one of them, and the newest come first unless another is asked for.
 */
export function listParts(...others: string[]) {
  const orders = ['created_at', ...others].flatMap((one) => [one, `-${one}`]);
  return {
    ...page,
    cursor: z.string().min(1).max(3_000).optional(),
    sort: z.enum(orders).default('-created_at'),
  };
}

/** Words of a search; each begins a word of what is found. */
export const search = z
  .string()
  .trim()
  .max(200)
  .regex(/[\p{L}\p{N}]/u, 'must hold a letter or a digit')
  .optional();
