import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { z } from 'zod';

/**
 * Who is told of things: `/hooks/<name>` takes webhooks, `/slack/<name>` and `/teams/<name>` what
 * these services take. `GET /sandbox/messages` shows what arrived, mail too, `DELETE` forgets it,
 * `GET /` is a page of it. `POST /sandbox/faults` takes one script, `DELETE` forgets all:
 *
 *   path     of which receiver, such as /hooks/one; mail for the mail server, `mail to <address>`
 *            for one recipient; absent: of all
 *   answer   error: `status` (default 500); timeout: the answer never comes; reset: the connection
 *            is cut; redirect: to a metadata address; gone: 410; large: 10 MB; endless: 200, and a
 *            body that never ends; broken: 200, and the connection is cut in the body; undelivered:
 *            200, and the text that Teams writes there when its delivery failed with `status`
 *   times    for so many requests (default 1; 0: until deleted)
 */
const fault = z.strictObject({
  path: z.string().optional(),
  answer: z.enum([
    ...(['error', 'timeout', 'reset', 'redirect', 'gone', 'large', 'endless', 'broken'] as const),
    'undelivered',
  ]),
  status: z.int().min(400).max(599).default(500),
  times: z.int().min(0).default(1),
});

export type ReceiverFault = z.infer<typeof fault>;

/** What arrived. */
export interface Arrival {
  at: string;
  path: string;
  headers: Record<string, string | string[] | undefined>;
  // biome-ignore lint/suspicious/noExplicitAny: messages are JSON of many shapes, or the text of a mail.
  body: any;
}

const ARRIVALS_MAX = 5_000;
const BODY_BYTES_MAX = 2 * 1_048_576;
const LARGE_BYTES = 10 * 1_048_576;

export type Receiver = ReturnType<typeof createReceiver>;

/** The arrivals and faults that the receivers share. */
export function createReceiver() {
  const arrivals: Arrival[] = [];
  let faults: ReceiverFault[] = [];
  return {
    arrivals,
    keep(arrival: Omit<Arrival, 'at'>) {
      arrivals.push({ at: new Date().toISOString(), ...arrival });
      if (arrivals.length > ARRIVALS_MAX) arrivals.shift();
    },
    addFault: (given: unknown) => faults.push(fault.parse(given)),
    clearFaults: () => {
      faults = [];
    },
    /** The oldest script for a path, counted down. */
    takeFault(path: string): ReceiverFault | undefined {
      const found = faults.find((one) => one.path === undefined || one.path === path);
      if (found === undefined || found.times === 0) return found;
      found.times -= 1;
      if (found.times === 0) faults = faults.filter((one) => one !== found);
      return found;
    },
  };
}

/** The receivers of webhooks, Slack and Teams over HTTP. */
export function createReceiverServer(receiver: Receiver): Server {
  return createServer((req, res) => {
    serve(receiver, req, res).catch((error) => send(res, 400, { error: String(error) }));
  });
}

async function serve(receiver: Receiver, req: IncomingMessage, res: ServerResponse) {
  const { pathname } = new URL(req.url ?? '/', 'http://sandbox');
  const text = await read(req);
  if (req.method === 'GET' && pathname === '/') return showPage(receiver, res);
  if (pathname === '/sandbox/health') return send(res, 200, {});
  if (pathname === '/sandbox/messages') {
    if (req.method === 'DELETE') receiver.arrivals.length = 0;
    return send(res, 200, { messages: receiver.arrivals });
  }
  if (pathname === '/sandbox/faults') {
    if (req.method === 'DELETE') receiver.clearFaults();
    else receiver.addFault(JSON.parse(text));
    return send(res, 200, {});
  }
  if (req.method !== 'POST' || !/^\/(hooks|slack|teams)\/./.test(pathname))
    return send(res, 404, { error: 'nobody listens here' });
  const script = receiver.takeFault(pathname);
  if (script) return misbehave(res, script);
  const body = JSON.parse(text);
  const refusal = refusalOf(pathname, body);
  if (refusal) return send(res, 400, { error: refusal });
  receiver.keep({ path: pathname, headers: req.headers, body });
  return send(res, 200, {});
}

/** What Slack and Teams answer to a message that has not their form. */
function refusalOf(path: string, body: Record<string, unknown>): string | undefined {
  if (path.startsWith('/slack/')) return typeof body.text === 'string' ? undefined : 'no_text';
  if (!path.startsWith('/teams/')) return undefined;
  const [first] = (body.attachments ?? []) as { content?: { type?: string } }[];
  return first?.content?.type === 'AdaptiveCard' ? undefined : 'no adaptive card';
}

function misbehave(res: ServerResponse, { answer, status }: ReceiverFault): void {
  // The sender waits until its own time is over.
  if (answer === 'timeout') return;
  if (answer === 'reset') {
    res.destroy();
    return;
  }
  if (answer === 'redirect') {
    res.writeHead(307, { location: 'http://169.254.169.254/latest/meta-data/' }).end();
    return;
  }
  if (answer === 'large') {
    res.writeHead(200).end(Buffer.alloc(LARGE_BYTES, 'a'));
    return;
  }
  if (answer === 'endless' || answer === 'broken') {
    res.writeHead(200, { 'content-length': LARGE_BYTES }).write('a');
    if (answer === 'broken') setImmediate(() => res.destroy());
    return;
  }
  if (answer === 'undelivered') {
    const text = `Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error ${status} with ContextId tcid=0.`;
    res.writeHead(200, { 'content-type': 'text/plain; charset=utf-8' }).end(text);
    return;
  }
  send(res, answer === 'gone' ? 410 : status, { error: answer });
}

function send(res: ServerResponse, status: number, body: object): void {
  res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

async function read(req: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of req) {
    bytes += (chunk as Buffer).length;
    if (bytes > BODY_BYTES_MAX) throw new Error('the body is too large');
    chunks.push(chunk as Buffer);
  }
  return Buffer.concat(chunks).toString();
}

const SHOWN_MAX = 50;

/** What arrived, newest first, with the links of its buttons. */
function showPage({ arrivals }: Receiver, res: ServerResponse): void {
  const items = arrivals
    .slice(-SHOWN_MAX)
    .reverse()
    .map(({ at, path, body }) => {
      const text = typeof body === 'string' ? body : JSON.stringify(body, undefined, 1);
      return `<li><b>${at} ${forHtml(path)}</b><pre>${linked(forHtml(text))}</pre></li>`;
    });
  res
    .writeHead(200, { 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-store' })
    .end(`<!doctype html><title>Notices</title><h1>Notices</h1><ul>${items.join('')}</ul>`);
}

function forHtml(text: string): string {
  return text.replace(/[&<>"]/g, (mark) => `&#${mark.charCodeAt(0)};`);
}

function linked(html: string): string {
  return html.replace(/https?:\/\/[\w.:/#=-]+/g, (url) => `<a href="${url}">${url}</a>`);
}
