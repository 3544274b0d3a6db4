import { z } from 'zod';
import { decimalText } from '../../domain/money';
import { namesOf } from '../../domain/people/names';
import { may } from '../../domain/people/rights';
import {
  type Dimension,
  dimensions,
  type Figures,
  type SpendViewer,
} from '../../domain/spend/figures';
import { intervals } from '../../domain/spend/periods';
import { spend, top } from '../../domain/spend/spend';
import * as answers from '../answers/spend';
import { actingOrg, member, platformAdmin } from '../http/access';
import { csvOf } from '../http/csv';
import { id, moment, name } from '../http/fields';
import { type Ctx, route } from '../http/route';

const dimension = z.enum(dimensions as [Dimension, ...Dimension[]]);
const GROUPS_MAX = 2;

const period = {
  from: moment
    .optional()
    .describe('The first day of the reporting time zone, or its first moment.'),
  to: moment.optional().describe('The day after the last one; what it begins is not in it.'),
};
const filters = {
  team_id: id.optional(),
  user_id: id.optional(),
  agent_id: id.optional(),
  key_id: id.optional(),
  provider: id.optional(),
  model: id.optional(),
  family: id.optional().describe('The family of routes, such as chat.'),
  tag: name.optional().describe('One of the tags that calls named in x-svc-tags.'),
  session_id: id.optional(),
};
const spendQuery = z.strictObject({
  org_id: id.optional(),
  ...period,
  interval: z.enum(intervals).default('day').describe('How long a bucket is.'),
  group_by: z
    .string()
    .transform((given) => given.split(','))
    .pipe(
      z
        .array(dimension)
        .max(GROUPS_MAX, `may name at most ${GROUPS_MAX}`)
        .refine((all) => new Set(all).size === all.length, 'names one twice'),
    )
    .optional()
    .describe(`What to group by: up to two of ${dimensions.join(', ')}, with a comma between.`),
  ...filters,
});
const topQuery = z.strictObject({
  org_id: id.optional(),
  ...period,
  by: dimension.default('model').describe('What to group by.'),
  limit: z.coerce.number<number>().int().min(1).max(200).default(10),
  ...filters,
});

const seen = 'Members see their own calls, admins of a team also its calls, org:billing all.';

export const spendRoutes = [
  route({
    method: 'get',
    path: '/v1/spend',
    access: member,
    input: spendQuery,
    handler: showSpend,
    summary: `What calls cost by hour, day or month, exact at as_of. ${seen} As CSV with Accept: text/csv.`,
    answer: answers.spend,
  }),
  route({
    method: 'get',
    path: '/v1/spend/top',
    access: member,
    input: topQuery,
    handler: showTop,
    summary: `Who or what cost most in a period. ${seen} As CSV with Accept: text/csv.`,
    answer: answers.top,
  }),
  route({
    method: 'get',
    path: '/v1/admin/spend',
    access: platformAdmin,
    input: spendQuery.extend({ org_id: id }),
    handler: showSpend,
    summary: 'What calls of any organization cost.',
    answer: answers.spend,
  }),
  route({
    method: 'get',
    path: '/v1/admin/spend/top',
    access: platformAdmin,
    input: topQuery.extend({ org_id: id }),
    handler: showTop,
    summary: 'Who or what cost an organization most.',
    answer: answers.top,
  }),
];

async function viewerOf({ db, principal }: Ctx, org_id: string | undefined) {
  return {
    org_id: await actingOrg(db, principal, org_id),
    user_id: principal.user_id,
    sees_all: may(principal, 'org:billing'),
  };
}

async function showSpend(
  ctx: Ctx,
  { org_id, from, to, interval, group_by = [], ...filter }: z.infer<typeof spendQuery>,
) {
  const viewer = await viewerOf(ctx, org_id);
  const found = await spend(ctx.db, viewer, filter, { from, to, interval, group_by });
  if (!wantsCsv(ctx)) return found;
  const cellsOfGroup = await groupCells(ctx, viewer, group_by, found.buckets);
  const names = ['start', 'local', ...groupNames(group_by), ...figureNames];
  const rows = found.buckets.map(({ start, local, group, ...figures }) => [
    { text: start.toISOString() },
    { text: local },
    ...cellsOfGroup(group),
    ...cellsOf(found.currency, figures),
  ]);
  if (leavesOut(found, group_by)) {
    const figures = cellsOf(found.currency, othersOf(found.totals, found.buckets));
    rows.push([{ text: null }, { text: OTHERS }, ...cellsOfGroup({}), ...figures]);
  }
  return csv(ctx, csvOf(names, rows), found.truncated);
}

async function showTop(
  ctx: Ctx,
  { org_id, from, to, by, limit, ...filter }: z.infer<typeof topQuery>,
) {
  const viewer = await viewerOf(ctx, org_id);
  const found = await top(ctx.db, viewer, filter, { from, to, by, limit });
  if (!wantsCsv(ctx)) return found;
  const cellsOfGroup = await groupCells(ctx, viewer, [by], found.groups);
  const rows = found.groups.map(({ group, ...figures }) => [
    ...cellsOfGroup(group),
    ...cellsOf(found.currency, figures),
  ]);
  if (leavesOut(found, [by])) {
    const figures = cellsOf(found.currency, othersOf(found.totals, found.groups));
    rows.push([...cellsOfGroup({ [by]: OTHERS }), ...figures]);
  }
  return csv(ctx, csvOf([...groupNames([by]), ...figureNames], rows), found.truncated);
}

/** The last line of a file that leaves groups out, so that its column adds up to the ledger. */
const OTHERS = 'others';

/** Calls count under each of their tags, so of tags there is no rest. */
function leavesOut({ truncated }: { truncated: boolean }, by: readonly Dimension[]): boolean {
  return truncated && !by.includes('tag');
}

function othersOf(totals: Figures, shown: readonly Figures[]): Figures {
  const left = (name: Exclude<keyof Figures, 'cost_nanos'>) =>
    shown.reduce((rest, one) => rest - one[name], totals[name]);
  return {
    cost_nanos: shown.reduce((rest, one) => rest - one.cost_nanos, totals.cost_nanos),
    requests: left('requests'),
    prompt_tokens: left('prompt_tokens'),
    completion_tokens: left('completion_tokens'),
    cached_tokens: left('cached_tokens'),
  };
}

type Group = Partial<Record<Dimension, string | null>>;

/** What these group by are ids; beside each stands its name. */
const named: readonly Dimension[] = ['user', 'team', 'agent', 'key'];

function groupNames(by: readonly Dimension[]): string[] {
  return by.flatMap((one) => (named.includes(one) ? [one, `${one}_name`] : [one]));
}

/** The cells of a group: its ids, each with the name that it has for whoever looks. */
async function groupCells(
  { db }: Ctx,
  { org_id, user_id, sees_all }: SpendViewer,
  by: readonly Dimension[],
  rows: readonly { group: Group }[],
) {
  const dims = by.filter((one) => named.includes(one));
  const ids = rows.flatMap(({ group }) => dims.map((one) => group[one] ?? ''));
  const distinct = [...new Set(ids)].filter((one) => one !== '');
  const found = await namesOf(db, { org_id, user_id, sees_all }, distinct);
  const names = new Map(found.map(({ id: of, name: text }) => [of, text]));
  return (group: Group) =>
    by.flatMap((one) => {
      const text = group[one] ?? null;
      return named.includes(one) ? [{ text }, { text: names.get(text ?? '') ?? null }] : [{ text }];
    });
}

const figureNames = [
  'currency',
  'cost',
  'requests',
  'prompt_tokens',
  'completion_tokens',
  'cached_tokens',
];

function cellsOf(currency: string, figures: Figures) {
  const { cost_nanos, requests, prompt_tokens, completion_tokens, cached_tokens } = figures;
  return [
    { text: currency },
    ...[decimalText(cost_nanos), requests, prompt_tokens, completion_tokens, cached_tokens].map(
      (number) => ({ number }),
    ),
  ];
}

function wantsCsv({ http }: Ctx): boolean {
  http.vary('accept');
  return http.accepts('application/json', 'text/csv') === 'text/csv';
}

/** A file that leaves groups out says so in a header, and in a last line unless it is by tag. */
function csv({ http }: Ctx, text: string, truncated: boolean): void {
  http.type = 'text/csv; charset=utf-8';
  http.attachment('spend.csv');
  http.set('x-svc-truncated', String(truncated));
  http.body = text;
}
