import { z } from 'zod';

type Issue = z.core.$ZodRawIssue;

// zod's names of types, in a person's words.
const words: Record<string, string> = {
  string: 'text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
};

const formats: Record<string, string> = {
  email: 'must be an email address',
  url: 'must be an address such as https://example.com',
  date: 'must be a date such as 2027-01-31',
  datetime: 'must be an ISO 8601 time such as 2027-01-31T00:00:00Z',
};

/**
 * The error of a field, as text that follows its name: "is missing", "must be a number, not text".
 * Those that read a schema's issues put the name before it; a schema's own messages read the same
 * way.
 */
function fieldMessage(issue: Issue): string {
  switch (issue.code) {
    case 'invalid_type':
      return wrongType(issue.expected, issue.input);
    case 'invalid_value':
      return wrongValue(issue.values.map(String), issue.input);
    case 'too_small':
      return tooSmall(issue);
    case 'too_big':
      return tooBig(issue);
    case 'invalid_format':
      return formats[issue.format] ?? 'does not have the right form';
    case 'invalid_key':
      return issue.issues[0]?.message ?? 'is not a name that can stand here';
    case 'unrecognized_keys':
      return `has no field ${issue.keys.join(', ')}`;
    default:
      return 'is not valid';
  }
}

function wrongType(expected: string, input: unknown): string {
  if (input === undefined) return 'is missing';
  const wanted = words[expected] ?? expected;
  const given = kindOf(input);
  return given === undefined || given === wanted
    ? `must be ${wanted}`
    : `must be ${wanted}, not ${given}`;
}

function kindOf(input: unknown): string | undefined {
  if (input === null || typeof input === 'boolean') return String(input);
  // Query and environment are text; text that is no number arrives as NaN.
  if (typeof input === 'number') return Number.isFinite(input) ? decimals(input) : undefined;
  return Array.isArray(input) ? words.array : words[typeof input];
}

function decimals(input: number): string | undefined {
  return Number.isInteger(input) ? words.number : String(input);
}

function wrongValue(values: readonly string[], input: unknown): string {
  const choice = values.length === 1 ? values[0] : `one of ${values.join(', ')}`;
  return input === undefined ? `is missing; it must be ${choice}` : `must be ${choice}`;
}

const things: Record<string, string> = { string: 'characters', array: 'items' };

function tooSmall({ origin, minimum, inclusive }: z.core.$ZodIssueTooSmall | Issue): string {
  const thing = things[String(origin)];
  if (thing === undefined) return `must be ${inclusive ? 'at least' : 'above'} ${minimum}`;
  return minimum === 1 ? 'must not be empty' : `must have at least ${minimum} ${thing}`;
}

function tooBig({ origin, maximum, inclusive }: z.core.$ZodIssueTooBig | Issue): string {
  const thing = things[String(origin)];
  if (thing !== undefined) return `may have at most ${maximum} ${thing}`;
  return inclusive ? `may be at most ${maximum}` : `must be below ${maximum}`;
}

z.config({ customError: fieldMessage });
