import { AppError } from '../../domain/errors';
import { newId } from '../../domain/ids';
import { lifeBudgetExceeded } from '../../domain/ledger/budget-refusals';
import type {
  Extend,
  Extension,
  Redeem,
  Reservation,
  ReserveBody,
  SettleBody,
  Settlement,
} from '../../domain/ledger/calls';
import * as reservations from '../../domain/ledger/reservations';
import { spentSession } from '../../domain/ledger/sessions';
import * as storedIds from '../../domain/ledger/stored-ids';
import { frozenModels } from '../../domain/ledger/views/frozen-models';
import { type Db, withRetry } from '../../domain/sql';
import { requireGatewayVersion } from '../http/access';
import type { Ctx } from '../http/route';
import { noUsage } from './bodies';
import { inItemSpan } from './item-span';

export function reserve(ctx: Ctx, body: ReserveBody) {
  return ctx.tracing ? inItemSpan(ctx, 'reserve', body, reserveNow) : reserveNow(ctx, body);
}

async function reserveNow(ctx: Ctx, body: ReserveBody): Promise<Reservation> {
  const { db, batches, http, principal } = ctx;
  requireGatewayVersion(http);
  const reserve = { ...body, request_id: body.request_id ?? newId('req') };
  const row = await batches.reserve(reserve, principal.unchecked_key);
  await failIfSpent(db, row, body);
  return reservations.reserveAnswer(row, body);
}

/** These words need what the ledger has counted. */
async function failIfSpent(
  db: Db,
  { code, warnings }: reservations.ItemAnswer,
  body: ReserveBody | Redeem,
): Promise<void> {
  if (code === 'session_limit_exceeded') throw await spentSession(db, body);
  // A budget stands in the answer; what a key may spend in its life does not.
  const { org_id, key_id } = body;
  if (code !== 'key_budget_exceeded' || warnings?.length || !key_id) return;
  const refusal = await lifeBudgetExceeded(db, { org_id, key_id });
  if (refusal !== undefined) throw refusal;
}

export function settle(ctx: Ctx, body: SettleBody) {
  return ctx.tracing ? inItemSpan(ctx, 'settle', body, settleNow) : settleNow(ctx, body);
}

async function settleNow({ db, batches, principal }: Ctx, body: SettleBody): Promise<Settlement> {
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
  const settled = reservations.settleAnswer(
    await batches.settle(
      { ...body, org_id, usage: body.usage ?? noUsage },
      principal.unchecked_key,
    ),
  );
  if (!body.with_cost || settled.reservation_id === null) return settled;
  const is_free = settled.actual_cost_nanos === 0n;
  const price_lines = is_free ? [] : await batches.priceLines(org_id, settled.reservation_id);
  return price_lines === undefined ? settled : { ...settled, price_lines };
}

export function redeem(ctx: Ctx, body: Redeem) {
  return ctx.tracing ? inItemSpan(ctx, 'redeem', body, redeemNow) : redeemNow(ctx, body);
}

async function redeemNow({ db, waiters, http }: Ctx, body: Redeem): Promise<Reservation> {
  requireGatewayVersion(http);
  const gone = new AbortController();
  http.res.once('close', () => gone.abort());
  // A ticket is redeemed by a request that no reserve of now has seen.
  const keeper = await withRetry(() => storedIds.keeperOf(db, body));
  const row = await waiters.redeem(body, gone.signal);
  await failIfSpent(db, row, body);
  const held = reservations.reserveAnswer({ ...row, ...keeper });
  // The ticket holds for the route of its day, which may be another one now.
  const { reservation_id } = held;
  const priced_models = await withRetry(() =>
    frozenModels(db, { org_id: body.org_id, reservation_id }),
  );
  return priced_models === undefined ? held : { ...held, priced_models };
}

export async function extend({ db }: Ctx, { items }: Extend): Promise<{ results: Extension[] }> {
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
  // Every hold that was named has its row, also an unknown one.
  const rowOf = ({ org_id, reservation_id }: Extend['items'][number]) =>
    results.get(org_id)?.get(reservation_id) as Extension;
  return { results: items.map(rowOf) };
}
