import type { z } from 'zod';
import { toErrorBody } from '../../domain/errors';
import { toRefusal } from '../../runtime/conventions';
import { API_VERSION } from '../../runtime/version';
import { toWire } from '../../runtime/wire';
import { type Ctx, parse } from '../http/route';
import { type BatchItem, type batchBody, extendBody, reserveBody, settleBody } from './bodies';
import { extend, reserve, settle } from './handlers';

/** Starts every item at once and writes each line as it is done, so that a slow organization delays nobody. */
export function batch(ctx: Ctx, { items }: z.infer<typeof batchBody>): void {
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
