import { z } from 'zod';
import { namesOf } from '../../domain/people/names';
import type { Permission } from '../../domain/people/roles';
import * as answers from '../answers/people';
import { member, ownOrg } from '../http/access';
import { id } from '../http/fields';
import { type Ctx, route } from '../http/route';

const IDS_MAX = 100;

const asked = z.strictObject({
  ids: z
    .string()
    .transform((given) => [...new Set(given.split(','))])
    .pipe(z.array(id).max(IDS_MAX, `may name at most ${IDS_MAX}`))
    .describe(`Ids of any kind, at most ${IDS_MAX}, with a comma between.`),
});

export const nameRoutes = [
  route({
    method: 'get',
    path: '/v1/names',
    access: member,
    input: asked,
    handler: listNames,
    summary:
      'How people call what ids stand for: people, teams, agents, keys, wallets, budgets, rules and destinations. Who has left keeps their name. What has none, or is not for you to see, is left out. Platform admins read those of every organization.',
    answer: answers.names,
  }),
];

/** Whoever has one of these meets the ids of keys and settings of others, and their names too. */
const readers: readonly Permission[] = ['tokens:write', 'org:members', 'org:billing'];

async function listNames({ db, principal }: Ctx, { ids }: z.infer<typeof asked>) {
  const { scopes, user_id } = principal;
  const org_id = ownOrg(principal);
  const sees_all = org_id === null || readers.some((one) => scopes.includes(one));
  return { names: await namesOf(db, { org_id, user_id, sees_all }, ids) };
}
