import { z } from 'zod';

/**
 * Misbehaviour on demand. `POST /sandbox/faults` takes one script, `GET` lists those that are left,
 * `DELETE` forgets all.
 *
 *   on           create, capture, read, refund, read-refund, expire, token, verify, or webhook. At
 *                provider B the buyer's payment is the capture; it takes only the `result`,
 *                `amount` and `currency` of a script.
 *   order        the order's id or the merchant's own name of it (custom_id,
 *                client_reference_id); without it any order
 *   times        for so many requests (default 1; 0: until deleted)
 *
 * A request, by default, is worked on and answered. A script changes that:
 *   delay_ms     works at once, answers later
 *   answer       timeout: the answer never comes; reset: the connection is cut; error: `status`
 *                (default 500)
 *   work         false: with `answer`, nothing is done. Default true: done, and the answer lost
 *   amount       captures or refunds this amount ("12.34") instead of the ordered one
 *   currency     captures in this currency
 *   result       pending, declined (capture; provider A then answers 201 with a DECLINED
 *                capture), or failed (refund)
 *   issue        with `answer: error`, at provider A: the issue that it names (PAYMENT_DENIED)
 *   set          members of the answer that are told otherwise, by JSON pointer:
 *                {"/status": "NEW_WORD"}. Where a pointer leads to nothing, the answer stays
 *   reversed     all lists of the answer in the other order
 *
 * Provider B keeps a 500 under the request's idempotency key and repeats it, as Stripe does; 503 is
 * not kept.
 *
 * on webhook, for each event (`type` narrows to one):
 *   blocked      is not sent (POST /sandbox/orders/:id/resend sends it)
 *   duplicates   is posted so many times more, at once
 *   delay_ms     is sent later
 *   reordered    is sent after the next event
 */
const fault = z.strictObject({
  on: z.enum([
    'create',
    'capture',
    'read',
    'refund',
    'read-refund',
    'expire',
    'token',
    'verify',
    'webhook',
  ]),
  order: z.string().optional(),
  times: z.int().min(0).default(1),
  delay_ms: z.int().min(0).default(0),
  answer: z.enum(['timeout', 'reset', 'error']).optional(),
  status: z.int().min(400).max(599).default(500),
  work: z.boolean().default(true),
  amount: z.string().optional(),
  currency: z.string().length(3).toUpperCase().optional(),
  result: z.enum(['pending', 'declined', 'failed']).optional(),
  issue: z.string().optional(),
  set: z.record(z.string().startsWith('/'), z.unknown()).optional(),
  reversed: z.boolean().default(false),
  type: z.string().optional(),
  blocked: z.boolean().default(false),
  duplicates: z.int().min(0).max(1_000).default(0),
  reordered: z.boolean().default(false),
});

export type Fault = z.infer<typeof fault>;
export type FaultPoint = Fault['on'];

/** The subject of a request, for scripts that wait for one order. */
export interface Subject {
  id?: string | undefined;
  reference?: string | null | undefined;
  type?: string | undefined;
}

export type Faults = ReturnType<typeof createFaults>;

export function createFaults() {
  let scripts: Fault[] = [];
  return {
    add(given: unknown): Fault {
      const script = fault.parse(given);
      scripts.push(script);
      return script;
    },
    list: (): readonly Fault[] => scripts,
    /** Forgets the scripts of an order; of all without one. */
    clear(order?: string) {
      scripts = order === undefined ? [] : scripts.filter((one) => one.order !== order);
    },
    /** The oldest script that waits for this request, counted down. */
    take(on: FaultPoint, subject: Subject): Fault | undefined {
      const script = scripts.find((one) => one.on === on && isMeant(one, subject));
      if (script === undefined || script.times === 0) return script;
      script.times -= 1;
      if (script.times === 0) scripts = scripts.filter((one) => one !== script);
      return script;
    },
  };
}

function isMeant({ order, type }: Fault, subject: Subject): boolean {
  if (type !== undefined && type !== subject.type) return false;
  return order === undefined || order === subject.id || order === subject.reference;
}

/** An answer's body as a script says that it is told. */
export function retold(body: unknown, { set = {}, reversed }: Fault): unknown {
  const told = JSON.parse(JSON.stringify(body), (_, value) =>
    reversed && Array.isArray(value) ? value.reverse() : value,
  );
  for (const [pointer, value] of Object.entries(set)) {
    const steps = pointer.slice(1).split('/');
    const last = steps.pop() as string;
    const owner = steps.reduce((at, step) => at?.[step], told);
    if (owner !== null && typeof owner === 'object') owner[last] = value;
  }
  return told;
}
