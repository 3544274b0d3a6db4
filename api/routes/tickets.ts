import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { sha256 } from '../../domain/digest';
import { AppError, isAppError } from '../../domain/errors';
import { requireKnown } from '../../domain/known';
import * as tickets from '../../domain/ledger/tickets';
import * as verdicts from '../../domain/ledger/verdicts';
import { isPlatformAdmin, may } from '../../domain/people/rights';
import { leads, teamsLedBy } from '../../domain/people/team-rights';
import * as answers from '../answers/machine';
import * as shared from '../answers/shared';
import { actingOrg, member, ownOrg } from '../http/access';
import { actingOf } from '../http/acting';
import { id, instant, listParts, positiveAmount, search, text } from '../http/fields';
import { idempotencyKey, onceElsewhere, senderOf } from '../http/idempotency';
import { type Ctx, route } from '../http/route';

const status = z.enum(['open', 'approved', 'denied', 'redeemed', 'expired']);
const listed = z.strictObject({
  org_id: id.optional(),
  mine: z.enum(['true', 'false']).optional(),
  status: status.optional(),
  user_id: id.optional(),
  team_id: id.optional(),
  agent_id: id.optional(),
  model: id.optional(),
  cause: z.enum(['balance', 'budget']).optional(),
  approvable: z
    .enum(['true', 'false'])
    .optional()
    .describe(
      'true: only open ones that you may approve; with mine=true those of your own. An admin of a team raises no budget of the team, of the organization or of themselves.',
    ),
  q: search.describe('Words of the name of the person, team or agent that asks.'),
  from: instant.optional().describe('Opened at or after this time.'),
  to: instant.optional().describe('Opened before this time.'),
  ...listParts(),
});
const one = z.strictObject({ id });
const approval = z.strictObject({
  id,
  amount: positiveAmount('amount').optional(),
  wallet_id: id.optional(),
  from_wallet_id: id.optional(),
  note: text.optional(),
});
// A denial called its note `reason` first: both words are taken, and mean one text.
const words = {
  note: text.optional(),
  reason: text.optional().describe('Another word for note.'),
};
const denial = z.strictObject({ id, ...words });
const TOGETHER_MAX = 50;
const together = z.strictObject({
  org_id: id.optional(),
  verdict: z.enum(['approve', 'deny']),
  ticket_ids: z.array(id).min(1).max(TOGETHER_MAX),
  ...words,
});

export const ticketRoutes = [
  route({
    method: 'get',
    path: '/v1/cost-tickets',
    access: member,
    input: listed,
    handler: list,
    summary:
      'Requests that no wallet or budget covered, newest first: with org:billing all, else those of the teams that you lead; mine=true shows your own.',
    answer: shared.parts({ tickets: answers.costTicket }),
  }),
  route({
    method: 'post',
    path: '/v1/cost-tickets/verdicts',
    access: member,
    input: together,
    handler: decideTogether,
    summary: 'Approve or deny several cost tickets; each has a result of its own.',
    is_idempotent: true,
    answer: answers.ticketVerdicts,
  }),
  route({
    method: 'get',
    path: '/v1/cost-tickets/:id',
    access: member,
    input: one,
    handler: inspect,
    summary:
      'A cost ticket with what is missing in each wallet and budget now, or what its budgets lacked and were raised by.',
    answer: answers.costTicket,
  }),
  route({
    method: 'post',
    path: '/v1/cost-tickets/:id/approve',
    access: member,
    input: approval,
    handler: approve,
    summary:
      'Raise the budgets that have no room, credit or move what is missing, and hold it for the request, in one step.',
    is_idempotent: true,
    answer: answers.costTicket,
  }),
  route({
    method: 'post',
    path: '/v1/cost-tickets/:id/deny',
    access: member,
    input: denial,
    handler: deny,
    summary: 'Refuse the request; its held call is told at once.',
    is_idempotent: true,
    answer: answers.costTicket,
  }),
];

async function list({ db, principal }: Ctx, input: z.infer<typeof listed>) {
  const { org_id, mine, approvable, page, per_page, as_of, cursor, sort, ...asked } = input;
  const request = { page, per_page, as_of, cursor, sort };
  const acting = await actingOrg(db, principal, org_id);
  const is_approvable = approvable === 'true';
  const is_mine = mine === 'true';
  const decided = is_mine && !is_approvable ? null : await visibleTo(db, principal, acting);
  if (!is_mine && decided?.team_ids?.length === 0) throw notAllowed();
  const seen = is_mine ? { ...ownOf(principal), ...decided } : decided;
  const { user_id, team_id, agent_id } = asked;
  await requireKnown(db, acting, { user_id, team_id, agent_id });
  // With org:billing one approves all that is open.
  const is_lead = is_approvable && seen?.team_ids !== undefined;
  const approver = is_lead ? (principal.user_id ?? undefined) : undefined;
  const filter = { org_id: acting, seen, is_approvable, approver, ...asked };
  const { rows, ...envelope } = await tickets.list(db, filter, request);
  return { tickets: rows, ...envelope };
}

/** What a person without org:billing sees of an organization's tickets; null sees all. */
type Seen = { user_id?: string; team_ids?: string[] } | null;

function ownOf({ user_id }: Ctx['principal']): Seen {
  if (user_id !== null) return { user_id };
  throw new AppError('invalid_field', 'This key stands for nobody, who asks for nothing.', {
    param: 'mine',
  });
}

async function visibleTo(
  db: Ctx['db'],
  principal: Ctx['principal'],
  org_id: string,
): Promise<Seen> {
  if (mayBill(principal)) return null;
  return { team_ids: await teamsLedBy(db, { org_id, user_id: principal.user_id }) };
}

function mayBill(principal: Ctx['principal']): boolean {
  return may(principal, 'org:billing');
}

function notAllowed(): AppError {
  return new AppError(
    'permission_denied',
    'This needs the permission org:billing, or that you are an admin of the team. mine=true shows your own tickets.',
  );
}

/** A ticket that the caller may see; for all others it is as if it did not exist. */
export async function find({ db, principal }: Ctx, ticket_id: string) {
  const ticket = await tickets.get(db, ticket_id, ownOrg(principal)).catch((error) => {
    const is_missing = isAppError(error) && error.code === 'not_found';
    throw is_missing && !mayBill(principal) ? notAllowed() : error;
  });
  if (mayBill(principal)) return { ticket, authority: undefined };
  const { org_id, team_id } = ticket;
  const is_led =
    team_id !== null && (await leads(db, { org_id, team_id, user_id: principal.user_id }));
  const is_own = ticket.user_id !== null && ticket.user_id === principal.user_id;
  if (!is_led && !is_own) throw notAllowed();
  return { ticket, authority: is_led ? ('team' as const) : ('own' as const) };
}

async function inspect(ctx: Ctx, input: z.infer<typeof one>) {
  return (await find(ctx, input.id)).ticket;
}

function approve(ctx: Ctx, { amount, ...rest }: z.infer<typeof approval>) {
  return decide(ctx, { verdict: 'approved', amount_nanos: amount?.toString(), ...rest });
}

function deny(ctx: Ctx, { id: ticket_id, ...given }: z.infer<typeof denial>) {
  return decide(ctx, { verdict: 'denied', id: ticket_id, note: noteOf(given) });
}

/** The note of a verdict; 422 if its two words say different things. */
function noteOf({ note, reason }: { note?: string | undefined; reason?: string | undefined }) {
  if (note === undefined || reason === undefined || note === reason) return note ?? reason;
  throw new AppError('invalid_field', 'reason and note are one text: give one of them.', {
    param: 'reason',
  });
}

type Decision = Pick<
  verdicts.Verdict,
  'verdict' | 'amount_nanos' | 'wallet_id' | 'from_wallet_id' | 'note'
> & { id: string };

/** Gives a ticket its verdict in the caller's name; throws the refusal of one that may not. */
export async function decideNow(ctx: Ctx, decision: Decision) {
  return record(ctx, (await verdictOf(ctx, decision)).verdict);
}

async function decide(ctx: Ctx, decision: Decision) {
  const { org_id, verdict } = await verdictOf(ctx, decision);
  return onceElsewhere(ctx, org_id, () => record(ctx, verdict));
}

async function verdictOf(ctx: Ctx, { id: ticket_id, ...decision }: Decision) {
  const { db, secrets, principal } = ctx;
  const { ticket, authority } = await find(ctx, ticket_id);
  if (authority === 'own') throw notAllowed();
  const { org_id } = ticket;
  const { actor: by, key_id, request_id } = actingOf(ctx);
  const verdict = await verdicts.signed(secrets, {
    ticket_id,
    org_id,
    ...decision,
    id: randomUUID(),
    asked_under: await askedUnder(ctx, [ticket_id, decision]),
    by,
    ...(key_id === undefined ? {} : { key_id }),
    asked_as: request_id,
    ...(authority === 'team' ? { authority, user_id: principal.user_id ?? '' } : {}),
    is_platform: isPlatformAdmin(principal),
    valid_until: await verdicts.verdictDeadline(db),
  });
  return { org_id, verdict };
}

/**
 * One name for all tries of a request under its Idempotency-Key: the answer that a repeat would get
 * is lost if the API dies before it is kept. A body that was corrected has another name.
 */
async function askedUnder({ http, principal }: Ctx, asked: unknown): Promise<string | undefined> {
  const key = idempotencyKey(http);
  return key && sha256(JSON.stringify([senderOf(principal), http.path, key, asked]));
}

/** The verdict goes through the ticket's workflow, which records it and ends. */
async function record({ db, temporal }: Ctx, verdict: verdicts.Verdict) {
  const { ticket_id, org_id } = verdict;
  const start = { workflow: 'costTicket', workflow_id: ticket_id, org_id } as const;
  await temporal.update(start, 'decide', verdict);
  return tickets.get(db, ticket_id, org_id);
}

/** One after the other, so that they leave room for those of others. */
async function decideTogether(ctx: Ctx, given: z.infer<typeof together>) {
  const org_id = await actingOrg(ctx.db, ctx.principal, given.org_id);
  const seen = await visibleTo(ctx.db, ctx.principal, org_id);
  if (seen?.team_ids?.length === 0) throw notAllowed();
  const verdict = given.verdict === 'approve' ? 'approved' : 'denied';
  const note = noteOf(given);
  const decisions = [...new Set(given.ticket_ids)].map((ticket_id) => ({
    id: ticket_id,
    verdict,
    note,
  })) satisfies Decision[];
  return onceElsewhere(
    ctx,
    org_id,
    async () => ({ results: await resultsOf(ctx, decisions) }),
    ({ results }) => results.flatMap(({ error }) => error?.status ?? []),
  );
}

/**
 * The result of each. What is away for one is away for the rest, which are not tried: each try
 * would wait for it anew. Throws it if none was decided.
 */
async function resultsOf(ctx: Ctx, decisions: readonly Decision[]) {
  const results = [];
  let away: AppError | undefined;
  for (const decision of decisions) {
    const done: Decided = away ?? (await decideNow(ctx, decision).catch(refusalOf));
    if (isAppError(done) && done.code === 'unavailable') away = done;
    results.push(resultOf(decision.id, done));
  }
  if (away !== undefined && results.every(({ ticket }) => ticket === null)) throw away;
  return results;
}

type Decided = Awaited<ReturnType<typeof decideNow>> | AppError;

function refusalOf(error: unknown): AppError {
  if (!isAppError(error)) throw error;
  return error;
}

function resultOf(ticket_id: string, done: Decided) {
  if (!isAppError(done)) return { ticket_id, ticket: done, error: null };
  const { code, message, status: http_status } = done;
  return { ticket_id, ticket: null, error: { code, message, status: http_status } };
}
