import { z } from 'zod';
import { AppError, isAppError, toErrorBody } from '../domain/errors';
import { newId } from '../domain/ids';
import * as reservations from '../domain/reservations';
import { withRetry } from '../domain/sql';
import * as tokens from '../domain/tokens';
import { API_VERSION, toRefusal, toWire } from '../http';
import { controlPlane, requireGatewayVersion } from './access';
import * as answers from './answers';
import { type Ctx, parse, route } from './route';
import { inItemSpan } from './tracing';

const id = z.string().min(1).max(200);
const count = z.int().min(0);
const model = z.strictObject({ provider: id, model: id });

const bodyHash = z.string().regex(/^sha256:[0-9a-f]{64}$/, 'must be sha256:<64 hex digits>');

// Of a call that is traced. Nobody's identity hangs on it: it is shown, never believed.
const trace = {
  traceparent: z
    .string()
    .regex(
      /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/,
      'must be a W3C traceparent',
    )
    .optional(),
  identity_proof_method: z.enum(['header_soft', 'gateway_key', 'signed_assertion']).optional(),
};

const reserveBody = z
  .strictObject({
    ...trace,
    org_id: id,
    provider: id,
    model: id,
    estimated_prompt_tokens: count,
    request_body_hash: bodyHash,
    max_completion_tokens: count.nullish(),
    user_id: id.nullish(),
    team_id: id.nullish(),
    agent_id: id.nullish(),
    key_id: id.nullish(),
    secret_id: id.nullish(),
    session_id: id.nullish(),
    request_id: id.nullish(),
    family: id.nullish(),
    units: z
      .strictObject({ characters: count.optional(), seconds: z.number().min(0).optional() })
      .nullish(),
    fallbacks: z.array(model).max(16).nullish(),
    session_limits: z
      .strictObject({ max_actions: count.optional(), max_cost_usd: z.number().min(0).optional() })
      .nullish(),
  })
  .refine((given) => !given.session_limits || given.session_id, {
    path: ['session_id'],
    message: 'is needed with session_limits: without it nothing is counted',
  });

/** How long a redeem may wait for money before it answers 402; the gateway asks again. */
const WAIT_MS_MAX = 30_000;

const redeemBody = z.strictObject({
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
  wait_ms: z.int().min(0).max(WAIT_MS_MAX).default(0),
});

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
  })
  .superRefine((used, check) => {
    const { cached_tokens, cache_write_tokens, cache_write_1h_tokens, audio_input_tokens } = used;
    if (
      cached_tokens + cache_write_tokens + cache_write_1h_tokens + audio_input_tokens >
      used.prompt_tokens
    ) {
      check.addIssue({
        code: 'custom',
        path: ['prompt_tokens'],
        message: 'must include the cached, cache-write and audio input tokens',
      });
    }
    if (used.reasoning_tokens + used.audio_output_tokens > used.completion_tokens) {
      check.addIssue({
        code: 'custom',
        path: ['completion_tokens'],
        message: 'must include the reasoning and audio output tokens',
      });
    }
  });
const noUsage = usage.parse({});

const settleBody = z.strictObject({
  ...trace,
  org_id: id.optional(),
  reservation_id: id.optional(),
  request_id: id.optional(),
  outcome: z.enum(['completed', 'failed', 'canceled']),
  provider: id.optional(),
  model: id.optional(),
  usage: usage.optional(),
  usage_source: z.enum(['upstream', 'estimated']).optional(),
});

const extendBody = z.strictObject({
  items: z
    .array(z.strictObject({ org_id: id, reservation_id: id }))
    .min(1)
    .max(1_000),
});

const verifyBody = z
  .strictObject({ key: id.optional(), org_id: id.optional(), key_id: id.optional() })
  .refine(({ key, org_id, key_id }) => (key ? !org_id && !key_id : org_id && key_id), {
    path: ['key'],
    message: 'is needed, or org_id with key_id where the gateway has another proof of who calls',
  });

const batchBody = z.strictObject({
  items: z
    .array(
      z.strictObject({
        id,
        op: z.enum(['reserve', 'settle', 'extend']),
        body: z.record(z.string(), z.unknown()),
      }),
    )
    .min(1)
    .max(64),
});

export const gatewayRoutes = [
  route('post', '/v1/gateway/wallets/reserve', controlPlane, reserveBody, reserve, {
    summary:
      'Reserve the estimated cost of a request from the first wallet of user, team, organization that covers it.',
    answer: answers.reservation,
  }),
  route('post', '/v1/gateway/wallets/settle', controlPlane, settleBody, settle, {
    summary: 'Settle a reservation to its real cost, once, however often it is said.',
    answer: answers.settlement,
  }),
  route('post', '/v1/gateway/wallets/redeem-ticket', controlPlane, redeemBody, redeem, {
    summary:
      'Run the reserve of a cost ticket again for one call; with wait_ms wait that long for money, oldest call first.',
    answer: answers.reservation,
  }),
  route('post', '/v1/gateway/wallets/extend', controlPlane, extendBody, extend, {
    summary: 'Keep reservations of long requests alive.',
    answer: answers.extensions,
  }),
  route('post', '/v1/gateway/wallets/batch', controlPlane, batchBody, batch, {
    summary:
      'Many reserves, settlements and extensions in one call; the answer is one NDJSON line an item, as each is done.',
  }),
  route('post', '/v1/gateway/keys/verify', controlPlane, verifyBody, verify, {
    summary: 'Who a gateway key is, if it is valid now.',
    answer: answers.keyOwner,
  }),
];

function reserve(ctx: Ctx, body: z.infer<typeof reserveBody>) {
  return ctx.tracing ? inItemSpan(ctx, 'reserve', body, reserveNow) : reserveNow(ctx, body);
}

async function reserveNow({ lanes, http }: Ctx, body: z.infer<typeof reserveBody>) {
  requireGatewayVersion(http);
  const row = await lanes.reserve({ ...body, request_id: body.request_id ?? newId('req') });
  return reservations.reserveAnswer(row, body);
}

function settle(ctx: Ctx, body: z.infer<typeof settleBody>) {
  return ctx.tracing ? inItemSpan(ctx, 'settle', body, settleNow) : settleNow(ctx, body);
}

async function settleNow({ db, lanes }: Ctx, body: z.infer<typeof settleBody>) {
  const { reservation_id, request_id, outcome } = body;
  if ((reservation_id === undefined) === (request_id === undefined)) {
    throw new AppError('invalid_field', 'Name either reservation_id or request_id.', {
      param: 'reservation_id',
    });
  }
  if (body.usage === undefined && outcome !== 'canceled') {
    throw new AppError('invalid_field', 'usage is required unless the outcome is canceled.', {
      param: 'usage',
    });
  }
  if (body.org_id === undefined && reservation_id === undefined) {
    throw new AppError('invalid_field', 'org_id is required with a request_id.', {
      param: 'org_id',
    });
  }
  const org_id = body.org_id ?? (await reservations.orgOf(db, reservation_id as string));
  return reservations.settleAnswer(
    await lanes.settle({ ...body, org_id, usage: body.usage ?? noUsage }),
  );
}

function redeem(ctx: Ctx, body: z.infer<typeof redeemBody>) {
  return ctx.tracing ? inItemSpan(ctx, 'redeem', body, redeemNow) : redeemNow(ctx, body);
}

async function redeemNow(
  { waiters, http }: Ctx,
  { team_id: _team, ...body }: z.infer<typeof redeemBody>,
) {
  requireGatewayVersion(http);
  const gone = new AbortController();
  http.res.once('close', () => gone.abort());
  return reservations.reserveAnswer(await waiters.redeem(body, gone.signal));
}

async function extend({ db }: Ctx, { items }: z.infer<typeof extendBody>) {
  const organizations = [...new Set(items.map((item) => item.org_id))];
  const done = await Promise.all(
    organizations.map(async (org_id) => {
      const ids = items.filter((item) => item.org_id === org_id).map((item) => item.reservation_id);
      // A transaction an organization, so that one that is undone repeats no other.
      const extensions = await withRetry(() => reservations.extend(db, org_id, ids));
      return [org_id, new Map(extensions.map((one) => [one.reservation_id, one]))] as const;
    }),
  );
  const results = new Map(done);
  return { results: items.map((item) => results.get(item.org_id)?.get(item.reservation_id)) };
}

async function verify({ keys, db, http }: Ctx, given: z.infer<typeof verifyBody>) {
  requireGatewayVersion(http);
  const { key, org_id: of_org = '', key_id: by_id = '' } = given;
  const found = key ? keys.check(key) : tokens.findLivingById(db, of_org, by_id);
  const token = await found.catch((error) => {
    // The gateway tells a refused key from a refusal of its own credential by the field that is named.
    throw isAppError(error) && error.code === 'invalid_credential'
      ? refusedKey(error.message)
      : error;
  });
  if (token.token_type !== 'gateway') {
    throw refusedKey('This is an access key; the gateway takes keys that start with svc_gk_.');
  }
  const {
    id: key_id,
    secret_id,
    org_id,
    user_id,
    team_id,
    agent_id,
    allowed_models,
    expires_at,
  } = token;
  return { key_id, secret_id, org_id, user_id, team_id, agent_id, allowed_models, expires_at };
}

function refusedKey(message: string): AppError {
  return new AppError('invalid_credential', message, { param: 'key' });
}

type BatchItem = z.infer<typeof batchBody>['items'][number];

/** Starts every item at once and writes each line as it is done, so that a slow organization delays nobody. */
function batch(ctx: Ctx, { items }: z.infer<typeof batchBody>): void {
  const { res } = ctx.http;
  ctx.http.respond = false;
  res.writeHead(200, { 'content-type': 'application/x-ndjson', 'x-svc-api-version': API_VERSION });
  // Items of one commit are done in one turn of the event loop; their lines leave in one write.
  let lines = '';
  let left = items.length;
  const flush = () => {
    // Items go on though the client has gone; their lines then go nowhere.
    if (left === 0) res.end(lines);
    else res.write(lines);
    lines = '';
  };
  for (const item of items) {
    void answerItem(ctx, item).then((answer) => {
      left -= 1;
      if (lines === '') setImmediate(flush);
      lines += `${JSON.stringify({ id: item.id, ...answer })}\n`;
    });
  }
}

async function answerItem(ctx: Ctx, item: BatchItem): Promise<{ status: number; body: unknown }> {
  try {
    return { status: 200, body: toWire(await runItem(ctx, item)) };
  } catch (error) {
    const known = toRefusal(ctx.http, error, ctx.log);
    return { status: known.status, body: toWire(toErrorBody(known, ctx.request_id)) };
  }
}

function runItem(ctx: Ctx, { op, body }: BatchItem): Promise<unknown> {
  switch (op) {
    case 'reserve':
      return reserve(ctx, parse(reserveBody, body));
    case 'settle':
      return settle(ctx, parse(settleBody, body));
    case 'extend':
      return extend(ctx, parse(extendBody, body));
  }
}
