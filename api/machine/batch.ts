import { isAppError, toErrorBody } from '../../domain/errors';
import type { Batch, BatchItem, BatchLine } from '../../domain/ledger/calls';
import { toRefusal } from '../../runtime/conventions';
import { API_VERSION } from '../../runtime/version';
import { toWire } from '../../runtime/wire';
import { parse } from '../http/parse';
import type { Ctx } from '../http/route';
import { extendBody, reserveBody, settleBody } from './bodies';
import { checkTimes } from './events';
import { extend, reserve, settle } from './handlers';

/**
 * Starts every item at once and writes each line as it is done, so that a slow organization delays
 * nobody. Resolves with the first lines; throws if the caller's key is not good any more.
 */
export function batch(ctx: Ctx, { items, events }: Batch): Promise<void> {
  if (events !== undefined) checkTimes(events.items, 'events.items');
  const { http } = ctx;
  const { res } = http;
  // Items of one commit are done in one turn of the event loop; their lines leave in one write.
  let lines = '';
  let left = items.length + (events === undefined ? 0 : 1);
  let has_ended = false;
  return new Promise((resolve, reject) => {
    const begin = () => {
      http.respond = false;
      const type = 'application/x-ndjson';
      res.writeHead(200, { 'content-type': type, 'x-svc-api-version': API_VERSION });
      resolve();
    };
    const flush = () => {
      if (has_ended) return;
      if (!res.headersSent) begin();
      // Items go on though the client has gone; their lines then go nowhere.
      if (left === 0) res.end(lines);
      else res.write(lines);
      lines = '';
    };
    const refuse = (error: unknown) => {
      has_ended = true;
      // Once a line is out nothing can be said but the end of the connection.
      if (res.headersSent) res.destroy();
      else reject(error);
    };
    const answerWith = (line: BatchLine) => {
      left -= 1;
      if (lines === '') setImmediate(flush);
      lines += `${JSON.stringify(line)}\n`;
    };
    for (const item of items) void answerItem(ctx, item).then(answerWith, refuse);
    // They go with items that wait by now.
    if (events !== undefined) void answerEvents(ctx, items, events).then(answerWith, refuse);
  });
}

function answerItem(ctx: Ctx, item: BatchItem): Promise<BatchLine> {
  return lineOf(ctx, item.id, () => runItem(ctx, item));
}

/** The events go with the first item that has a transaction of its organization. */
function answerEvents(
  ctx: Ctx,
  items: readonly BatchItem[],
  { id, items: events }: NonNullable<Batch['events']>,
): Promise<BatchLine> {
  const { batches, principal } = ctx;
  const carrier = items.find(({ op }) => op !== 'extend')?.body as { org_id?: unknown } | undefined;
  return lineOf(ctx, id, async () => {
    await batches.tell(String(carrier?.org_id), principal.unchecked_key, events);
    return {};
  });
}

/** Throws only the refusal of the caller's key, to which nothing is answered. */
async function lineOf(ctx: Ctx, id: string, run: () => Promise<unknown>): Promise<BatchLine> {
  try {
    return { id, status: 200, body: toWire(await run()) };
  } catch (error) {
    // Where nobody can be asked at present, the item has its answer all the same.
    await checkKey(ctx).catch((refusal) => {
      if (isAppError(refusal) && refusal.status < 500) throw refusal;
    });
    const known = toRefusal(ctx.http, error, ctx.log);
    return { id, status: known.status, body: toWire(toErrorBody(known, ctx.request_id)) };
  }
}

async function runItem(ctx: Ctx, { op, body }: BatchItem): Promise<unknown> {
  switch (op) {
    case 'reserve':
      return reserve(ctx, parse(reserveBody, body));
    case 'settle': {
      const settlement = parse(settleBody, body);
      // Whose hold it is, is asked outside of its transaction.
      if (settlement.org_id === undefined) await checkKey(ctx);
      return settle(ctx, settlement);
    }
    case 'extend':
      await checkKey(ctx);
      return extend(ctx, parse(extendBody, body));
  }
}

/** Looks at the caller's key where no transaction of an item has done so. */
async function checkKey({ principal, principalNow }: Ctx): Promise<void> {
  if (principal.unchecked_key !== undefined) await principalNow();
}
