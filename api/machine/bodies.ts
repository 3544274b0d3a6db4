import { z } from 'zod';
import type {
  Batch,
  BatchItem,
  Extend,
  Fees,
  NamedId,
  NamedIds,
  PricedModel,
  Redeem,
  ReserveBody,
  SessionLimits,
  SettleBody,
  Some,
  StoredId,
  Units,
  Usage,
} from '../../domain/ledger/calls';
import { CHOICES_MAX, TAG_LENGTH_MAX, TAGS_MAX } from '../../domain/ledger/calls';
import { PROVIDER_COST_MAX_USD } from '../../domain/money';
import {
  type CallerBody,
  type PersonBody,
  SUBJECT_MAX,
  type VerifyBody,
} from '../../domain/people/identity';
import type { TraceMembers } from '../../domain/trace';
import type { Members } from '../http/fields';
import { gatewayEvents } from './events';

const id = z.string().min(1).max(200);
const count = z.int().min(0);
const model = z.strictObject({ provider: id, model: id } satisfies Members<PricedModel>);

const bodyHash = z.string().regex(/^sha256:[0-9a-f]{64}$/, 'must be sha256:<64 hex digits>');

// Nobody's identity hangs on what is said of a call: it is shown, never believed.
const trace = {
  traceparent: z
    .string()
    .regex(
      /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/,
      'must be a W3C traceparent',
    )
    .optional(),
  identity_proof_method: z.enum(['header_soft', 'gateway_key', 'signed_assertion']).optional(),
  trace_label: id.optional(),
} satisfies Members<TraceMembers>;

// Some providers' ids are long, as they say all that they stand for.
const stored_id = z.string().min(1).max(1_000);
const named = { kind: id, id: stored_id } satisfies Members<NamedId>;

const namedIds = z.strictObject({
  providers: z.array(id).min(1).max(32),
  ids: z.array(z.strictObject(named)).min(1).max(1_000),
} satisfies Members<NamedIds>);

const tags = z
  .array(z.string().min(1).max(TAG_LENGTH_MAX))
  .max(TAGS_MAX)
  .refine((all) => new Set(all).size === all.length, 'names a tag twice');

export const reserveBody = z
  .strictObject({
    ...trace,
    org_id: id,
    provider: id,
    model: id,
    estimated_prompt_tokens: count,
    request_body_hash: bodyHash,
    max_completion_tokens: count.nullish(),
    choices: z.int().min(1).max(CHOICES_MAX).nullish(),
    user_id: id.nullish(),
    team_id: id.nullish(),
    agent_id: id.nullish(),
    key_id: id.nullish(),
    secret_id: id.nullish(),
    session_id: id.nullish(),
    tags: tags.nullish(),
    request_id: id.nullish(),
    family: id.nullish(),
    units: z
      .strictObject({
        characters: count.optional(),
        seconds: z.number().min(0).optional(),
        web_searches: count.optional(),
        file_searches: count.optional(),
        containers: count.optional(),
        pages: count.optional(),
        image_output_tokens: count.optional(),
        audio_input_tokens: count.optional(),
        audio_output_tokens: count.optional(),
      } satisfies Members<Some<Units & Fees>>)
      .nullish(),
    service_tier: id.nullish(),
    region: id.nullish(),
    cache_life: z.enum(['5m', '1h']).nullish(),
    fallbacks: z.array(model).max(16).nullish(),
    session_limits: z
      .strictObject({
        max_actions: count.optional(),
        max_cost_usd: z.number().min(0).optional(),
      } satisfies Members<SessionLimits>)
      .nullish(),
    stored_ids: namedIds.nullish(),
    own_keys: z
      .boolean()
      .nullish()
      .describe('true: the caller serves by the own keys that the answer names.'),
  } satisfies Members<ReserveBody>)
  .refine((given) => !given.session_limits || given.session_id, {
    path: ['session_id'],
    message: 'is needed with session_limits: without it nothing is counted',
  });

/** How long a redeem may wait for money before it answers 402; the gateway asks again. */
const WAIT_MS_MAX = 30_000;

export const redeemBody = z.strictObject({
  ...trace,
  org_id: id,
  ticket_id: id,
  request_id: id,
  request_body_hash: bodyHash,
  key_id: id.nullish(),
  secret_id: id.nullish(),
  user_id: id.nullish(),
  team_id: id.nullish(),
  agent_id: id.nullish(),
  family: id.nullish(),
  is_brought: z.boolean().default(false),
  stored_ids: namedIds.nullish(),
  wait_ms: z.int().min(0).max(WAIT_MS_MAX).default(0),
} satisfies Members<Redeem>);

const usage = z
  .strictObject({
    prompt_tokens: count.default(0),
    completion_tokens: count.default(0),
    cached_tokens: count.default(0),
    cache_write_tokens: count.default(0),
    cache_write_1h_tokens: count.default(0),
    reasoning_tokens: count.default(0),
    audio_input_tokens: count.default(0),
    audio_output_tokens: count.default(0),
    characters: count.default(0),
    seconds: z.number().min(0).default(0),
    tool_calls: count.default(0),
    // These are kept only if they are told, as an older gateway tells none of them.
    image_input_tokens: count.optional(),
    image_output_tokens: count.optional(),
    video_input_tokens: count.optional(),
    video_output_tokens: count.optional(),
    web_searches: count.optional(),
    file_searches: count.optional(),
    containers: count.optional(),
    pages: count.optional(),
    service_tier: id.optional(),
    region: id.optional(),
  } satisfies Members<Usage>)
  .superRefine((used, check) => {
    const { cached_tokens, cache_write_tokens, cache_write_1h_tokens, audio_input_tokens } = used;
    const { image_input_tokens = 0, video_input_tokens = 0 } = used;
    const cached = cached_tokens + cache_write_tokens + cache_write_1h_tokens;
    if (
      cached + audio_input_tokens + image_input_tokens + video_input_tokens >
      used.prompt_tokens
    ) {
      check.addIssue({
        code: 'custom',
        path: ['prompt_tokens'],
        message: 'must include the cached, cache-write, audio, image and video input tokens',
      });
    }
    const { reasoning_tokens, audio_output_tokens } = used;
    const { image_output_tokens = 0, video_output_tokens = 0 } = used;
    const shown = audio_output_tokens + image_output_tokens + video_output_tokens;
    if (reasoning_tokens + shown > used.completion_tokens) {
      check.addIssue({
        code: 'custom',
        path: ['completion_tokens'],
        message: 'must include the reasoning, audio, image and video output tokens',
      });
    }
  });
export const noUsage = usage.parse({});

export const settleBody = z.strictObject({
  ...trace,
  org_id: id.optional(),
  reservation_id: id.optional(),
  request_id: id.optional(),
  outcome: z.enum(['completed', 'failed', 'canceled']),
  provider: id.optional(),
  model: id.optional(),
  provider_key_id: id.optional().describe("The own key that served; absent: the platform's."),
  usage: usage.optional(),
  usage_source: z.enum(['upstream', 'estimated']).optional(),
  provider_cost_usd: z
    .string()
    .regex(/^\d{1,5}(?:\.\d{1,80})?$/, 'must be an amount of USD as decimal text')
    .refine(
      (amount) => Number(amount) <= PROVIDER_COST_MAX_USD,
      `must be at most ${PROVIDER_COST_MAX_USD}`,
    )
    .optional()
    .describe('What the provider says that the call cost: kept and compared, never charged.'),
  stored_ids: z
    .array(
      z.strictObject({
        ...named,
        provider: id,
        provider_key_id: id.optional(),
      } satisfies Members<StoredId>),
    )
    .max(1_000)
    .optional(),
  stored_at: id.optional().describe('The target of the gateway that made them, by its id.'),
  with_cost: z.boolean().optional().describe('The answer has price_lines too.'),
} satisfies Members<SettleBody>);

export const extendBody = z.strictObject({
  items: z
    .array(
      z.strictObject({ org_id: id, reservation_id: id } satisfies Members<Extend['items'][number]>),
    )
    .min(1)
    .max(1_000),
} satisfies Members<Extend>);

export const verifyBody = z
  .strictObject({
    key: id.optional(),
    org_id: id.optional(),
    key_id: id.optional(),
  } satisfies Members<VerifyBody>)
  .refine(({ key, org_id, key_id }) => (key ? !org_id && !key_id : org_id && key_id), {
    path: ['key'],
    message: 'is needed, or org_id with key_id where the gateway has another proof of who calls',
  });

export const personBody = z.strictObject({
  org_id: id,
  issuer: z
    .string()
    .min(1)
    .max(1_000)
    .optional()
    .describe('The iss of the token; absent: the sub is the id of a user here.'),
  subject: z.string().min(1).max(SUBJECT_MAX).describe('The sub of the token.'),
  key_id: id.optional().describe('A gateway key that must be a living one of that person.'),
  team_id: id.optional().describe('A team that the person must be in.'),
} satisfies Members<PersonBody>);

export const callerBody = z.strictObject({
  org_id: id,
  key_id: id.nullish(),
  secret_id: id.nullish(),
  user_id: id.nullish(),
  team_id: id.nullish(),
} satisfies Members<CallerBody>);

export const providerKeyBody = z
  .strictObject({
    org_id: id.optional(),
    provider: id.optional(),
    name: id.optional().describe('A key of the platform, which a target names.'),
  })
  .refine(({ org_id, provider, name }) => (name ? !org_id && !provider : org_id && provider), {
    path: ['org_id'],
    message: 'is needed with provider, or the name of a key of the platform alone',
  });

export const batchBody = z.strictObject({
  events: z
    .strictObject({ id, items: gatewayEvents })
    .describe(
      'Events of the gateway, written in the transaction of an item; 503 if none could take them.',
    )
    .optional(),
  items: z
    .array(
      z.strictObject({
        id,
        op: z.enum(['reserve', 'settle', 'extend']),
        body: z.record(z.string(), z.unknown()),
      } satisfies Members<BatchItem>),
    )
    .min(1)
    .max(64),
} satisfies Members<Batch>);
