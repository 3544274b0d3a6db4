import { toErrorBody } from '../../domain/errors';
import type { Batch, BatchItem, BatchLine } from '../../domain/ledger/calls';
import { toRefusal } from '../../runtime/conventions';
import { API_VERSION } from '../../runtime/version';
import { toWire } from '../../runtime/wire';
import { type Ctx, parse } from '../http/route';
import { extendBody, reserveBody, settleBody } from './bodies';
import { extend, reserve, settle } from './handlers';

/**
 * Starts every item at once and writes each line as it is done, so that a slow organization delays
 * nobody.
 */
export function batch(ctx: Ctx, { items }: Batch): void {
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
    void answerItem(ctx, item).then((line) => {
      left -= 1;
      if (lines === '') setImmediate(flush);
      lines += `${JSON.stringify(line)}\n`;
    });
  }
}

async function answerItem(ctx: Ctx, item: BatchItem): Promise<BatchLine> {
  const { id } = item;
  try {
    return { id, status: 200, body: toWire(await runItem(ctx, item)) };
  } catch (error) {
    const known = toRefusal(ctx.http, error, ctx.log);
    return { id, status: known.status, body: toWire(toErrorBody(known, ctx.request_id)) };
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
