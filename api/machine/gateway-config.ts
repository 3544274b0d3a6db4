import { z } from 'zod';
import { AppError } from '../../domain/errors';
import * as fleet from '../../domain/gateways/fleet';
import { DEFAULT_GROUP } from '../../domain/gateways/groups';
import { markRoutine } from '../../runtime/request-log';
import * as answers from '../answers/gateways';
import * as shared from '../answers/shared';
import { controlPlane, controlPlaneOfBatch } from '../http/access';
import { answerKnown, answerUnlessKnown } from '../http/etags';
import { gatewayGroup, id, instant } from '../http/fields';
import { type Ctx, route } from '../http/route';

/** No longer: balancers end what is silent for 30 s. */
const WAIT_MS_MAX = 25_000;
/** How often a gateway reports; and while a rollout goes on in its group. */
const REPORT_MS = 20_000;
const REPORT_IN_ROLLOUT_MS = 2_000;

const count = z.int().min(0);
/** Calls at one moment; the column has 32 bits. */
const calls = count.max(2_147_483_647);

const polling = z.strictObject({
  gateway_id: id.optional().describe('As in its reports; absent: no rollout moves it.'),
  group: gatewayGroup.default(DEFAULT_GROUP).describe('GATEWAY_GROUP of the gateway.'),
  wait_ms: z.coerce
    .number<number>()
    .int()
    .min(0)
    .max(WAIT_MS_MAX)
    .default(0)
    .describe('How long the answer may wait for another version than that of If-None-Match.'),
});
const report = z.strictObject({
  id: z.string().min(1).max(200).describe('Made by the gateway when it starts.'),
  host: id.describe('The machine it runs on.'),
  config_version: z.int().min(1).nullable().describe('What it runs; null: its own file.'),
  config_hash: id.describe('Names the running configuration by its content.'),
  refused_version: z.int().min(1).nullable().describe('The newest version that it refused.'),
  error: z.string().max(10_000).nullable().describe('Why it refused that version.'),
  started_at: instant.describe('When its process began.'),
  group: gatewayGroup.optional().describe('GATEWAY_GROUP; absent: it takes part in no rollout.'),
  state: z
    .enum(['running', 'draining', 'stopped'])
    .optional()
    .describe('stopped is its last report: it leaves the list.'),
  in_flight: calls.optional().describe('Calls under way.'),
  held: calls.optional().describe('Those of them that wait for money.'),
  counts: z
    .strictObject({
      finished: count.describe('Calls that have ended.'),
      own_5xx: count.describe('Answers of 5xx that it made itself.'),
      upstream_5xx: count.describe('Answers of 5xx after a provider failed.'),
      refused: count.describe('Answers of 4xx that it made itself, but for want of money.'),
      lost_reports: count.describe('Reports that did not arrive.'),
    })
    .optional()
    .describe('Of the calls that began with what it runs, since it took that up.'),
});

/** What gateways ask for and report, each by itself. */
export const gatewayConfigRoutes = [
  route({
    method: 'get',
    path: '/v1/gateway/config',
    // The key is looked at when there is something to give away: an idle fleet asks all the time.
    access: controlPlaneOfBatch,
    input: polling,
    handler: poll,
    summary:
      'What a gateway is to run. Carries an ETag; 404 where it runs its own file, whose ETag is "none". With wait_ms the answer waits for a change.',
    answer: answers.polledConfig,
  }),
  route({
    method: 'post',
    path: '/v1/gateway/config/report',
    access: controlPlane,
    input: report,
    handler: note,
    summary: 'What a gateway runs, and how its calls end.',
    answer: shared.nothing,
  }),
];

async function poll(ctx: Ctx, input: z.infer<typeof polling>) {
  const { config_watch, http, principal } = ctx;
  const { gateway_id, wait_ms } = input;
  const gone = new AbortController();
  const leave = () => gone.abort();
  http.res.once('close', leave);
  const asking = { id: gateway_id ?? null, group: input.group };
  const known = knownTo(http.get('if-none-match'));
  const desired = await config_watch.desired(asking, { known, wait_ms, gone: gone.signal });
  http.res.removeListener('close', leave);
  const is_news = wait_ms === 0 || desired.version !== known;
  if (is_news && principal.unchecked_key !== undefined) await ctx.principalNow();
  markRoutine(http);
  http.set('x-svc-report-ms', String(desired.is_in_rollout ? REPORT_IN_ROLLOUT_MS : REPORT_MS));
  if (desired.version === null)
    throw new AppError('not_found', 'Gateways run their own files: PUT /v1/admin/gateway-config.');
  // Whoever waited in vain has it, whatever else is asked: the key was not looked at.
  if (!is_news) {
    answerKnown(http, String(desired.version));
    return;
  }
  http.type = 'json';
  const text = await config_watch.textOf(desired.version);
  answerUnlessKnown(http, String(desired.version), text);
}

/** The version that the gateway has; null for its own file, undefined if it does not say. */
function knownTo(if_none_match: string): number | null | undefined {
  const [, tag] = /^(?:W\/)?"(0|[1-9]\d{0,14}|none)"$/.exec(if_none_match) ?? [];
  if (tag === undefined) return undefined;
  return tag === 'none' ? null : Number(tag);
}

async function note({ db, http }: Ctx, given: z.infer<typeof report>) {
  markRoutine(http);
  if (given.state === 'stopped') {
    await fleet.forget(db, given.id);
    return {};
  }
  const { config_version, refused_version } = given;
  await fleet.report(db, {
    id: given.id,
    host: given.host,
    software_version: http.get('x-svc-gateway-version') || null,
    group_name: given.group ?? null,
    config_version: config_version === null ? null : BigInt(config_version),
    config_hash: given.config_hash,
    refused_version: refused_version === null ? null : BigInt(refused_version),
    error: given.error,
    is_draining: given.state === 'draining',
    in_flight: given.in_flight ?? 0,
    held: given.held ?? 0,
    counts: given.counts ?? null,
    started_at: given.started_at,
  });
  return {};
}
