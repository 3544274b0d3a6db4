import { z } from 'zod';
import type { AuthForm } from '../providers/kind';
import { isObject } from '../wire/values';

const variable = z.string().min(1);

/** How AWS is asked: keys in variables, or its own chain; a role is taken on top of either. */
const aws = z.strictObject({
  access_key_id_env: variable.optional(),
  secret_access_key_env: variable.optional(),
  session_token_env: variable.optional(),
  role_arn: z
    .string()
    .regex(/^arn:[\w-]+:iam::\d{12}:role\/[\w+=,.@/-]+$/, 'must be the ARN of a role')
    .optional(),
  external_id_env: variable.optional(),
});

/** A file of a service account, or Google's own chain. */
const google = z.strictObject({
  /** The variable that holds the path of the file. */
  credentials_file_env: variable.optional(),
});

const tenant = z.string().regex(/^[\w.-]{1,100}$/, 'must be the id of a tenant');
const entra = z.union([
  z.enum(['workload_identity', 'managed_identity']),
  z.strictObject({
    tenant_id: tenant,
    client_id: z.string().regex(/^[\w-]{1,100}$/, 'must be the id of an application'),
    client_secret_env: variable,
  }),
]);

const forms = z.strictObject({
  /** The variable that holds the key. */
  key_env: variable.optional(),
  /** The file that holds the key, and nothing else; it is read again when it changes. */
  key_file: z
    .string()
    .regex(/^\//, 'must be the whole path of a file, from its slash on')
    .optional(),
  /** The name of a key that lies sealed in the control plane. */
  key_sealed: z
    .string()
    .regex(/^[\w.-]{1,100}$/, 'must be the name of a key of POST /v1/provider-keys')
    .optional(),
  aws: aws.optional(),
  google: google.optional(),
  entra: entra.optional(),
});

/** How a target proves who asks: `none`, or exactly one way. */
export const auth = z.union([z.literal('none'), forms], {
  // A key that was written where its place is named is not repeated.
  error: ({ input }) =>
    isObject(input)
      ? undefined
      : 'names where the key is, such as { key_env: OPENAI_API_KEY } or { key_file: /run/secrets/key }, and never holds one; or write none.',
});

export type Auth = z.infer<typeof auth>;
export type AwsAuth = z.infer<typeof aws>;
export type GoogleAuth = z.infer<typeof google>;
export type EntraAuth = z.infer<typeof entra>;

/** The one way to prove who asks that settings name. */
export type AuthWay =
  | { form: 'none' }
  | { form: 'key'; variable?: string; file?: string; sealed?: string }
  | { form: 'aws'; aws: AwsAuth }
  | { form: 'google'; google: GoogleAuth }
  | { form: 'entra'; entra: EntraAuth };

interface Authenticated {
  auth?: Auth | undefined;
  api_key_env?: string | undefined;
}

/** The ways that settings name, one each; today's `api_key_env` is one of them. */
function waysOf({ auth: given, api_key_env }: Authenticated): AuthWay[] {
  const ways: AuthWay[] = [];
  if (api_key_env !== undefined) ways.push({ form: 'key', variable: api_key_env });
  if (given === undefined) return ways;
  if (given === 'none') return [...ways, { form: 'none' }];
  if (given.key_env !== undefined) ways.push({ form: 'key', variable: given.key_env });
  if (given.key_file !== undefined) ways.push({ form: 'key', file: given.key_file });
  if (given.key_sealed !== undefined) ways.push({ form: 'key', sealed: given.key_sealed });
  if (given.aws !== undefined) ways.push({ form: 'aws', aws: given.aws });
  if (given.google !== undefined) ways.push({ form: 'google', google: given.google });
  if (given.entra !== undefined) ways.push({ form: 'entra', entra: given.entra });
  return ways;
}

/** The way of a target whose settings are right. */
export function wayOf(row: Authenticated): AuthWay {
  return waysOf(row)[0] ?? { form: 'none' };
}

// Other proxies take these in place of the key, and serve by whose they are.
const secret_names = /auth|key|token|secret|sig|^code$/i;

/**
 * True if whoever is asked knows the caller by its key alone, so that another key in its place is
 * another account. A server that asks for none serves whatever it is sent.
 */
export function isOpenedByKey(row: Authenticated & Placed): boolean {
  return wayOf(row).form === 'key' && secretsOf(row).length === 0;
}

/** What a target is sent with each request beside its key, by a name that says it is a secret. */
export function secretsOf({ headers = {}, query = {}, base_url }: Placed): string[] {
  const in_url = base_url === undefined ? [] : [...new URL(base_url).searchParams];
  return [...Object.entries(headers), ...Object.entries(query), ...in_url]
    .filter(([name]) => secret_names.test(name))
    .map(([, value]) => value);
}

interface Placed {
  headers?: Record<string, string> | undefined;
  query?: Record<string, string> | undefined;
  base_url?: string | undefined;
}

/** The key in the text of a file: one word, with blanks around it; undefined if it is none. */
export function keyIn(text: string): string | undefined {
  const key = text.trim();
  return /^[\x21-\x7e]+$/.test(key) ? key : undefined;
}

/** Every variable whose value the way reads, with its path below the target. */
export function variablesOf(row: Authenticated): { at: string; variable: string }[] {
  if (row.api_key_env !== undefined && row.auth === undefined)
    return [{ at: 'api_key_env', variable: row.api_key_env }];
  const { auth: given } = row;
  if (given === undefined || given === 'none') return [];
  const named: [string, string | undefined][] = [
    ['auth.key_env', given.key_env],
    ['auth.aws.access_key_id_env', given.aws?.access_key_id_env],
    ['auth.aws.secret_access_key_env', given.aws?.secret_access_key_env],
    ['auth.aws.session_token_env', given.aws?.session_token_env],
    ['auth.aws.external_id_env', given.aws?.external_id_env],
    ['auth.google.credentials_file_env', given.google?.credentials_file_env],
    [
      'auth.entra.client_secret_env',
      typeof given.entra === 'object' ? given.entra.client_secret_env : undefined,
    ],
  ];
  return named.flatMap(([at, variable]) => (variable === undefined ? [] : [{ at, variable }]));
}

/**
 * The identity of the machine or its cloud that a way stands on, which only the process allows;
 * undefined if everything is named.
 */
export function ambientOf(way: AuthWay): 'aws' | 'google' | 'azure' | undefined {
  if (way.form === 'aws' && way.aws.access_key_id_env === undefined) return 'aws';
  if (way.form === 'google' && way.google.credentials_file_env === undefined) return 'google';
  if (way.form === 'entra' && typeof way.entra === 'string') return 'azure';
  return undefined;
}

const written: Record<AuthForm, string> = {
  none: 'none',
  key: '{ key_env: … }, { key_file: … } or { key_sealed: … }',
  aws: '{ aws: … }',
  google: '{ google: … }',
  entra: '{ entra: … }',
};

/** What is wrong with the auth of a target of a kind that takes these forms, and how to mend it. */
export function authProblem(
  row: Authenticated,
  kind: { name: string; auth: readonly AuthForm[]; needs_one: boolean },
): { at: string; message: string } | undefined {
  const ways = waysOf(row);
  const list = kind.auth.map((form) => written[form]).join(', or ');
  if (ways.length > 1)
    return { at: 'auth', message: `names ${ways.length} ways to prove who asks: leave one.` };
  const [way] = ways;
  if (way === undefined)
    return kind.needs_one ? { at: 'auth', message: `is missing: write auth: ${list}.` } : undefined;
  if (!kind.auth.includes(way.form))
    return { at: 'auth', message: `does not fit the kind ${kind.name}: write auth: ${list}.` };
  if (way.form !== 'aws') return undefined;
  const { access_key_id_env, secret_access_key_env, session_token_env } = way.aws;
  const is_whole = (access_key_id_env === undefined) === (secret_access_key_env === undefined);
  if (is_whole && !(session_token_env !== undefined && access_key_id_env === undefined))
    return undefined;
  return {
    at: 'auth.aws',
    message: 'names a part of a key: write access_key_id_env and secret_access_key_env, or none.',
  };
}
