import { ApplicationFailure } from '@temporalio/common';
import { AppError } from '../domain/errors';
import * as events from '../domain/events';
import { keepPartitions } from '../domain/exports/kept-events';
import * as configs from '../domain/gateways/configs';
import * as fleet from '../domain/gateways/fleet';
import * as rollouts from '../domain/gateways/rollouts';
import { audit } from '../domain/ledger/audit';
import * as budgetUpkeep from '../domain/ledger/budget-upkeep';
import * as reservations from '../domain/ledger/reservations';
import * as storedIds from '../domain/ledger/stored-ids';
import * as tickets from '../domain/ledger/tickets';
import * as verdicts from '../domain/ledger/verdicts';
import * as notices from '../domain/notices/messages';
import * as recipients from '../domain/notices/recipients';
import * as cancellation from '../domain/payments/cancellation';
import * as paymentEvents from '../domain/payments/events';
import * as refunds from '../domain/payments/refunds';
import * as paymentSteps from '../domain/payments/steps';
import * as groupGrants from '../domain/people/group-grants';
import { check } from '../domain/prices/check';
import { servedByVersions } from '../domain/prices/factors';
import { isFault } from '../domain/prices/told-costs';
import type { Secrets } from '../domain/secrets';
import { type Db, withRetry } from '../domain/sql';
import * as storedAnswers from '../domain/stored-answers';
import { createTargetOf } from '../exports/open';
import { createProviderOf } from '../payment-providers/configured';
import { builtInCatalog } from '../price-catalogs/built-in';
import { behindBorder, refusable } from './border';
import { createConfigActivities } from './config-rollout';
import { createExportSteps } from './exports';
import { withLife } from './life';
import { type Look, type NoticeWays, sendNotices } from './notices';
import { createPaymentSteps } from './payments';

export interface Dependencies {
  db: Db;
  secrets: Secrets;
  /** Hosts where payment providers may be, beside their own. */
  payment_hosts: readonly string[];
  /** The folder of exports, if this process has one: EXPORT_DIR. */
  export_dir?: string | undefined;
  /** The object stores that exports may go to: EXPORT_S3_ORIGINS. */
  s3_origins?: readonly string[] | undefined;
  /** What the folder keeps of one organization, in bytes: EXPORT_OWNER_BYTES_MAX. */
  export_bytes_max?: number | undefined;
  /** How notices leave; absent, they reach servers of the world only, without links or mail. */
  notice_ways?: NoticeWays | undefined;
  /** Until then a verdict or a cancellation may come from an API that does not sign yet. */
  accept_unsigned_until?: Date | undefined;
}

const BROKEN_SHOWN_MAX = 50;
const PRICES_SHOWN_MAX = 50;

const worldOnly: NoticeWays = {
  networks: undefined,
  chat_hosts: [],
  public_url: undefined,
  mail: undefined,
};

/**
 * The activities of each worker program, by what it is given. A program offers its own alone, so
 * that a task on the wrong queue fails where it is seen.
 */
export const activities_of = {
  worker_lifecycle: createActivities,
  worker_export: createExportActivities,
  worker_config: createConfigActivities,
};

export type { ConfigActivities } from './config-rollout';
export type Activities = ReturnType<typeof createActivities> &
  ReturnType<typeof createExportActivities>;

/**
 * The activities: their names, as workflows call them, and their domain functions. Each is one
 * idempotent step.
 */
export function createActivities({
  db,
  secrets,
  payment_hosts,
  accept_unsigned_until,
  notice_ways: ways = worldOnly,
}: Dependencies) {
  /** Refuses what no API signed: whoever reaches Temporal can send a message. */
  const requireSigned = async (isSigned: Promise<boolean>) => {
    const is_signed = await isSigned;
    const is_accepted = accept_unsigned_until && new Date() < accept_unsigned_until;
    if (!is_signed && !is_accepted) throw notSigned();
  };
  const steps = createPaymentSteps(db, createProviderOf(db, secrets, payment_hosts));
  return {
    ...paymentActivities(db, steps),
    ...noticeActivities(db, secrets, ways),
    ...upkeepActivities(db),
    /** Ends a session at its buyer's wish, which an API has signed. */
    cancelPayment: (wish: cancellation.Cancellation) =>
      refusable(async () => {
        await requireSigned(cancellation.isSigned(db, secrets, wish));
        return steps.cancelPayment(wish);
      }),
    /** Milliseconds to the organization's next deadline; null if no hold is open. */
    expireHolds: ({ org_id }: { org_id: string }) =>
      refusable(() => withRetry(() => reservations.sweep(db, org_id))),
    /** How many organizations with overdue holds were given their workflow again. */
    adoptOrphanHolds: ({ limit }: { limit: number }) =>
      refusable(() => reservations.adoptOrphans(db, limit)),
    /**
     * Milliseconds that an open ticket has left, 0 if it is closed; expires it if its time is over.
     */
    expireTicket: ({ ticket_id }: { ticket_id: string }) =>
      refusable(async () => ({
        left_ms: await withRetry(() => tickets.expire(db, ticket_id)),
        summary: await tickets.summary(db, ticket_id),
      })),
    /** A person's verdict on a ticket, which an API has signed; a refusal fails with its code. */
    recordVerdict: (verdict: verdicts.Verdict) =>
      refusable(async () => {
        await requireSigned(verdicts.isSigned(secrets, verdict));
        return withRetry(() => verdicts.decide(db, verdict));
      }),
    /** How a ticket stands, and one line of who asked and who decided. */
    showTicket: ({ ticket_id }: { ticket_id: string }) =>
      refusable(async () => ({
        status: (await tickets.statusOf(db, ticket_id)) ?? 'expired',
        summary: await tickets.summary(db, ticket_id),
      })),
    /** How many open tickets past their deadline were given their workflow again. */
    adoptOrphanTickets: ({ limit }: { limit: number }) =>
      refusable(() => tickets.adoptOrphans(db, limit)),
    /** How many rollouts of configurations that nobody steps on were given their workflow again. */
    adoptOrphanRollouts: ({ limit }: { limit: number }) =>
      refusable(() => rollouts.adoptOrphans(db, limit)),
  };
}

async function forgetOld(db: Db): Promise<number> {
  const forgotten = [
    await storedAnswers.forget(db),
    await tickets.forgetWaiters(db),
    await budgetUpkeep.keep(db),
    await storedIds.forget(db),
    await paymentEvents.forget(db),
    await groupGrants.takeBackLeft(db),
  ];
  return forgotten.reduce((sum, count) => sum + count, 0);
}

/**
 * The activities of worker_export. Those that take long give signs of life, and hear that they are
 * to stop.
 */
export function createExportActivities(given: Dependencies) {
  const { db, secrets, export_dir: dir, s3_origins: origins = [], export_bytes_max } = given;
  const steps = createExportSteps(db, createTargetOf(db, { dir, origins, secrets }), {
    bytes_max: export_bytes_max,
  });
  return {
    beginExport: behindBorder(steps.beginExport),
    writeExportPart: behindBorder((part: { export_id: string; n: number }) =>
      withLife((life) => steps.writeExportPart(part, life)),
    ),
    finishExport: behindBorder((ref: { export_id: string }) =>
      withLife((life) => steps.finishExport(ref, life)),
    ),
    failExport: behindBorder(steps.failExport),
    clearExport: behindBorder((ref: { export_id: string }) =>
      withLife((life) => steps.clearExport(ref, life)),
    ),
    expireExports: behindBorder((page: { limit: number }) =>
      withLife((life) => steps.expireExports(page, life)),
    ),
    adoptOrphanExports: behindBorder(steps.adoptOrphanExports),
    runExportSchedules: behindBorder(steps.runExportSchedules),
  };
}

/** The steps of payments, each behind the error border. */
function paymentActivities(db: Db, steps: ReturnType<typeof createPaymentSteps>) {
  return {
    openCheckout: behindBorder(steps.openCheckout),
    collectPayment: behindBorder(steps.collectPayment),
    creditPayment: behindBorder(steps.creditPayment),
    debitRefund: behindBorder(steps.debitRefund),
    sendRefund: behindBorder(steps.sendRefund),
    /**
     * How many payments, refunds and webhooks that waited for their session were taken up again.
     */
    adoptDuePayments: ({ limit }: { limit: number }) =>
      refusable(async () => {
        // A whole page asks for another one, so the rest of it goes to the next kind.
        let left = limit;
        for (const adopt of [paymentSteps.adoptDue, refunds.adoptDue, paymentEvents.matchUnknown])
          left -= left > 0 ? await adopt(db, left) : 0;
        return limit - left;
      }),
  };
}

function upkeepActivities(db: Db) {
  return {
    /** Proves the whole ledger; fails for good, naming what is broken. */
    proveLedger: async () => {
      const { broken } = await audit(db);
      await events.tellBroken(db, broken.length);
      if (broken.length > 0)
        throw ApplicationFailure.nonRetryable(
          `The ledger is broken in ${broken.length} places.`,
          'ledger_broken',
          ...broken.slice(0, BROKEN_SHOWN_MAX),
        );
    },
    /** What of the prices is to be mended; an event says so if anything is. Changes nothing. */
    checkPrices: () => refusable(() => checkPrices(db)),
    /** The partitions of events: those of the next days made, those past 90 days dropped. */
    keepEventPartitions: () => refusable(() => keepPartitions(db)),
    /** How many gateways fell silent without a word and were told of. */
    noteSilentGateways: () => refusable(() => withRetry(() => fleet.noteSilent(db))),
    /**
     * Answers under an Idempotency-Key are kept 7 days, the places of calls that waited an hour,
     * stored ids 30 days after their last use, windows of budgets 7 days after their end. Budgets
     * of owners who are gone are archived.
     */
    forgetStoredAnswers: () => refusable(() => forgetOld(db)),
  };
}

async function checkPrices(db: Db) {
  const found = await check(
    db,
    [await builtInCatalog()],
    await servedByVersions(db, await configs.assigned(db)),
  );
  const off = found.told_costs.filter(isFault).slice(0, PRICES_SHOWN_MAX);
  const shown = {
    unpriced: found.unpriced.slice(0, PRICES_SHOWN_MAX),
    differs: found.differs.slice(0, PRICES_SHOWN_MAX).map(({ name }) => name),
    by_hand: found.by_hand.length,
    old: found.old,
    told_costs: off.map(({ name, ratio }) => ({ name, ratio })),
    faults: found.faults,
  };
  await events.tellPrices(db, shown);
  return shown;
}

function noticeActivities(db: Db, secrets: Secrets, ways: NoticeWays) {
  return {
    /** Tries what is due for a destination; milliseconds until it is to be looked at again. */
    sendNotices: (look: Look) => withLife(() => sendNotices({ db, secrets, ways }, look)),
    /** How many destinations with notices that nobody sends were given their workflow again. */
    adoptOrphanNotices: ({ limit }: { limit: number }) =>
      refusable(() => notices.adoptOrphans(db, limit)),
    /** How many keys were told of because they end within a week. */
    tellExpiringKeys: () => refusable(() => notices.tellExpiringKeys(db)),
    /** Notices and messages of over 90 days are forgotten, codes that were mailed after a day. */
    forgetNotices: () =>
      refusable(async () => {
        await notices.forget(db);
        await recipients.forgetCodes(db);
      }),
  };
}

function notSigned(): AppError {
  return new AppError(
    'verdict_not_signed',
    'This was not signed by an API with the SVC_SECRETS_KEY of this worker. Decide on tickets and ' +
      'cancel payments through the API.',
  );
}
