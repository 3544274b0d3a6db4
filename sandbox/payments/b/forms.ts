import { code } from 'currency-codes';
import { z } from 'zod';
import type { Money } from '../store';
import { type ProviderResponse, Refused } from '../wire';

/** An error in Stripe's shape. */
export function problem(
  status: number,
  message: string,
  more: { type?: string; code?: string; param?: string } = {},
): ProviderResponse {
  return { status, body: { error: { type: 'invalid_request_error', message, ...more } } };
}

export function invalid(message: string, param?: string, code?: string): Refused {
  return new Refused(problem(400, message, { ...(param && { param }), ...(code && { code }) }));
}

const whole = new Set('BIF CLP DJF GNF JPY KMF KRW MGA PYG RWF VND VUV XAF XOF XPF'.split(' '));
const thousandths = new Set('BHD JOD KWD OMR TND'.split(' '));
/** Without decimals in the world, with two zeros in the API, as they once had decimals there. */
const padded = new Set(['ISK', 'UGX']);

function digitsOf(currency: string): number {
  if (whole.has(currency)) return 0;
  return thousandths.has(currency) ? 3 : 2;
}

export function toUnits(value: string, currency: string): number {
  const [units = '0', decimals = ''] = value.split('.');
  return Number(units + decimals.padEnd(digitsOf(currency), '0').slice(0, digitsOf(currency)));
}

export function amountText({ amount, currency }: Money): string {
  const digits = digitsOf(currency);
  return `${(amount / 10 ** digits).toFixed(padded.has(currency) ? 0 : digits)} ${currency}`;
}

/** Refuses an amount that the currency cannot have at Stripe. */
export function checkAmount(amount: number, currency: string, param: string): void {
  const step = padded.has(currency) ? 100 : thousandths.has(currency) ? 10 : 1;
  if (amount % step === 0) return;
  const wanted = `Amounts in ${currency} must be divisible by ${step}.`;
  throw invalid(`Invalid amount: ${amount}. ${wanted}`, param, 'parameter_invalid_integer');
}

export function checkCurrency(given: string, param: string): string {
  const currency = given.toUpperCase();
  if (code(currency)) return currency;
  throw invalid(`Invalid currency: ${given}.`, param);
}

type Form = { [name: string]: Form | string };

/**
 * `a[b][0]=c` as an object; one with only numbers for names becomes a list, and `a[]` is its next
 * place.
 */
export function decode(fields: URLSearchParams): unknown {
  const root: Form = Object.create(null);
  for (const [name, value] of fields) {
    const parts = name.replaceAll(']', '').split('[');
    let at = root;
    for (const [index, part] of parts.entries()) {
      const key = part === '' ? String(Object.keys(at).length) : part;
      const next = at[key];
      if (index === parts.length - 1) at[key] = value;
      else {
        const inner: Form = typeof next === 'object' ? next : Object.create(null);
        at[key] = inner;
        at = inner;
      }
    }
  }
  return withLists(root);
}

function withLists(form: Form): unknown {
  const entries = Object.entries(form).map(
    ([name, value]) => [name, typeof value === 'string' ? value : withLists(value)] as const,
  );
  const is_list = entries.length > 0 && entries.every(([name], index) => name === String(index));
  return is_list ? entries.map(([, value]) => value) : Object.fromEntries(entries);
}

const integer = z
  .string()
  .regex(/^\d{1,12}$/, 'is no integer')
  .transform(Number);
const web_url = z.url({ protocol: /^https?$/ });
const labels = z.record(z.string().max(40), z.string().max(500));
const expand = z.array(z.string()).optional();
const ignored = z.unknown().optional();

export const sessionRequest = z.strictObject({
  mode: z.literal('payment'),
  success_url: web_url,
  cancel_url: web_url.optional(),
  client_reference_id: z.string().max(200).optional(),
  metadata: labels.default({}),
  expires_at: integer.optional(),
  line_items: z
    .array(
      z.strictObject({
        quantity: integer.default(1),
        price_data: z.strictObject({
          currency: z.string(),
          unit_amount: integer,
          product_data: z.looseObject({ name: z.string().min(1) }),
          tax_behavior: ignored,
        }),
      }),
    )
    .length(1),
  payment_intent_data: z
    .looseObject({ metadata: labels.default({}), description: z.string().optional() })
    .optional(),
  expand,
  adaptive_pricing: ignored,
  allow_promotion_codes: ignored,
  billing_address_collection: ignored,
  currency: ignored,
  customer: ignored,
  customer_creation: ignored,
  customer_email: ignored,
  invoice_creation: ignored,
  locale: ignored,
  payment_method_types: ignored,
  phone_number_collection: ignored,
  submit_type: ignored,
  ui_mode: ignored,
});

export const refundRequest = z.strictObject({
  payment_intent: z.string().optional(),
  charge: z.string().optional(),
  amount: integer.optional(),
  reason: z.enum(['duplicate', 'fraudulent', 'requested_by_customer']).optional(),
  metadata: labels.default({}),
  expand,
});

/** A form, read by its schema, or Stripe's words about the first field that is wrong. */
export function parse<Schema extends z.ZodType>(schema: Schema, form: unknown): z.infer<Schema> {
  const parsed = schema.safeParse(form);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  if (issue?.code === 'unrecognized_keys') {
    const param = paramOf([...issue.path, issue.keys[0] ?? '']);
    throw invalid(`Received unknown parameter: ${param}`, param, 'parameter_unknown');
  }
  const param = paramOf(issue?.path ?? []);
  if (issue?.input === undefined && issue?.code === 'invalid_type')
    throw invalid(`Missing required param: ${param}.`, param, 'parameter_missing');
  throw invalid(`Invalid ${param}: ${issue?.message}`, param);
}

function paramOf(path: PropertyKey[]): string {
  const [first = '', ...rest] = path.map(String);
  return first + rest.map((part) => `[${part}]`).join('');
}
