import { z } from 'zod';
import { DEFAULT_GROUP } from '../../domain/gateways/groups';
import * as changes from '../../domain/gateways/rollout-changes';
import * as rollouts from '../../domain/gateways/rollouts';
import * as answers from '../answers/gateways';
import * as shared from '../answers/shared';
import { actorOf, platformAdmin } from '../http/access';
import { gatewayGroup, id, page } from '../http/fields';
import { type Ctx, route } from '../http/route';

const DAY_S = 86_400;
const stage = z.union([
  z.int().min(1).max(100_000),
  z.string().regex(/^(100|[1-9]\d?)%$/, 'must be a number of gateways or a share such as "25%"'),
]);

export const newRollout = z.strictObject({
  version: z.int().min(1).describe('An existing version; an older one is a way back.'),
  group: gatewayGroup.default(DEFAULT_GROUP).describe('GATEWAY_GROUP of its gateways.'),
  stages: z
    .array(stage)
    .min(1)
    .max(20)
    .optional()
    .describe(
      'Gateways that run it by the end of each stage, as numbers or shares; the last is "100%". Absent: 1, 25% and 100%, or all at once for a version that is older than what the group runs.',
    ),
  soak_s: z
    .int()
    .min(0)
    .max(DAY_S)
    .optional()
    .describe(
      'How long each stage is watched before it is judged; 0 judges nothing. Absent: 60, or 0 for an older version.',
    ),
  max_wait_s: z
    .int()
    .min(1)
    .max(DAY_S)
    .default(600)
    .describe('How long it waits for 100 finished calls of each moved gateway, beyond the soak.'),
  apply_s: z
    .int()
    .min(1)
    .max(3_600)
    .default(30)
    .describe('How long a gateway may take to run what it was moved to.'),
  max_error_ratio: z
    .number()
    .min(0)
    .max(1)
    .default(0.02)
    .describe(
      'How much larger a share of failed calls may be than elsewhere; five times that of refused ones.',
    ),
  note: z.string().trim().max(500).optional(),
});

const listed = z.strictObject({
  group: gatewayGroup.optional(),
  status: z.enum(rollouts.rolloutStatuses).optional(),
  ...page,
});
const named = z.strictObject({ id });

/** Configurations on their way to gateways. */
export const configRolloutRoutes = [
  route({
    method: 'post',
    path: '/v1/admin/config-rollouts',
    access: platformAdmin,
    input: newRollout,
    status: 201,
    is_recorded: true,
    handler: create,
    summary:
      'Bring a version to the gateways of a group in stages. Each stage is watched; if it does worse than the rest, all that were moved return. It supersedes one that goes on there.',
    answer: answers.rollout,
  }),
  route({
    method: 'get',
    path: '/v1/admin/config-rollouts',
    access: platformAdmin,
    input: listed,
    handler: list,
    summary: 'Rollouts, newest first.',
    answer: shared.list({ rollouts: answers.rollout }),
  }),
  route({
    method: 'get',
    path: '/v1/admin/config-rollouts/:id',
    access: platformAdmin,
    input: named,
    handler: show,
    summary: 'One rollout, with the gateways that it has moved.',
    answer: answers.rolloutWithGateways,
  }),
  action(
    'pause',
    'Move no further gateway. Those that were moved are watched as ever, and return on a failure.',
  ),
  action('resume', 'Go on with a paused rollout; the soak of its stage begins again.'),
  action('abort', 'End a rollout: all gateways that it has moved return at once.'),
  action('promote', 'Move all gateways now, without soak and gates.'),
];

function action(what: changes.RolloutAction, summary: string) {
  return route({
    method: 'post',
    path: `/v1/admin/config-rollouts/:id/${what}`,
    access: platformAdmin,
    input: named,
    is_recorded: true,
    handler: async ({ db }: Ctx, input) => shownRollout(await changes.act(db, input.id, what)),
    summary,
    answer: answers.rollout,
  });
}

async function create({ db, principal }: Ctx, given: z.infer<typeof newRollout>) {
  const by = actorOf(principal);
  const note = given.note ?? null;
  return shownRollout(
    await changes.create(db, { version: given.version, ...rulesOf(given), note, by }),
  );
}

async function list({ db }: Ctx, { group, status, ...window }: z.infer<typeof listed>) {
  const { rows, ...envelope } = await rollouts.list(db, { group, status }, window);
  return { rollouts: rows.map(shownRollout), ...envelope };
}

async function show({ db }: Ctx, given: z.infer<typeof named>) {
  const rollout = await rollouts.get(db, given.id);
  return { ...shownRollout(rollout), gateways: await rollouts.movedBy(db, rollout.id) };
}

/** How a rollout is to go, without what is rolled out. */
export function rulesOf(
  given: Omit<z.infer<typeof newRollout>, 'version' | 'note'>,
): Omit<changes.NewRollout, 'version' | 'note' | 'by'> {
  const { group, stages, soak_s, max_wait_s, apply_s, max_error_ratio } = given;
  return { group, stages, soak_s, max_wait_s, apply_s, max_error_ratio };
}

export function shownRollout({
  group_name: group,
  version,
  from_version,
  ...row
}: rollouts.Rollout) {
  const before = from_version === null ? null : Number(from_version);
  return { ...row, group, version: Number(version), from_version: before };
}
