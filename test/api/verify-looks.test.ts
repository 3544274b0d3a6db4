import { createServer, type RequestListener, type Server } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import * as checks from '../../api/verify/checks';
import { Left } from '../../api/verify/client';
import type { Deployment, Place } from '../../api/verify/deployment';
import { cleanUp, type Found, summaryOf } from '../../api/verify/main';
import { exportAStatement } from '../../api/verify/statement';
import { listen } from '../../runtime/listen';
import { failedWords } from '../../temporal/problems';

// What verify makes of a deployment's answers: a healthy one is green, whatever happened before.

const servers: Server[] = [];

afterAll(() => {
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
});

async function deployment(answer: RequestListener, consoles: Place[] = []): Promise<Deployment> {
  const server = createServer(answer);
  servers.push(server);
  const url = `http://127.0.0.1:${await listen(server, 0)}`;
  const api: Place = { url, kind: 'api', version: '1.5.0' };
  const gateways: Place[] = [{ url, kind: 'gateway', version: '1.5.0' }];
  return { apis: [api], gateways, consoles, platform_key: 'svc_ak_x' } as unknown as Deployment;
}

const json =
  (body: object, status = 200): RequestListener =>
  (_, res) =>
    res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));

const failure = (run: Promise<string>) =>
  run.then(
    (words) => ['passed', words],
    (error: Error) => [error.name, error.message],
  );

const failed_words = `2 workflows ${failedWords('export')}. The Temporal page says why.`;
const workersThat = (last_failed_at: string | null | undefined, problems = [failed_words]) =>
  json({
    problems,
    workers: [
      {
        name: 'worker_export',
        queues: [{ task_queue: 'export', failed_workflows_last_day: 2, last_failed_at }],
      },
    ],
    schedules: [
      { id: 'exportUpkeep', last_ended_at: '2027-01-31T12:00:00Z', last_result: 'completed' },
      { id: 'reconcile', last_ended_at: '2027-01-31T14:00:00Z', last_result: 'completed' },
      { id: 'audit', last_ended_at: '2027-01-31T13:00:00Z', last_result: 'failed' },
      { id: 'pricesCheck', last_ended_at: null, last_result: null },
    ],
  });

test.each([
  ['before the last good run', '2027-01-31T11:59:59Z', 'passed', /2 workflows failed earlier/],
  ['after it', '2027-01-31T12:00:01Z', 'Fault', /failed within the last day/],
  ['at a time that an older API does not say', undefined, 'Fault', /failed within the last day/],
])("a workflow that failed %s of its queue's schedule", async (_, at, name, words) => {
  const found = await failure(checks.workers(await deployment(workersThat(at))));
  expect(found).toEqual([name, expect.stringMatching(words)]);
});

test('a queue without a schedule is not forgiven for those of another one, which is', async () => {
  const config_words = `1 workflow ${failedWords('config')}.`;
  const queue = { failed_workflows_last_day: 1, last_failed_at: '2027-01-31T11:00:00Z' };
  const named = (task_queue: string) => ({ ...queue, task_queue });
  const answer = json({
    problems: [`1 workflow ${failedWords('lifecycle')}.`, config_words],
    workers: [
      { name: 'worker_lifecycle', queues: [named('lifecycle')] },
      { name: 'worker_config', queues: [named('config')] },
    ],
    schedules: [
      { id: 'reconcile', last_ended_at: '2027-01-31T12:00:00Z', last_result: 'completed' },
    ],
  });
  expect(await failure(checks.workers(await deployment(answer)))).toEqual(['Fault', config_words]);
});

test('what else is wrong of workers stays red beside an old failure', async () => {
  const missing = 'No worker_config polls the queue config.';
  const answer = workersThat('2027-01-31T11:00:00Z', [failed_words, missing]);
  expect(await failure(checks.workers(await deployment(answer)))).toEqual(['Fault', missing]);
});

test.each([
  ['by its label, however many others were blocked since', 'a label'],
  ['on the page, where an older API finds no labels', 'its own id alone'],
])('the event of a block is found %s', async (_, finds) => {
  let label: unknown;
  const others = Array(50).fill({ type: 'request.blocked', trace_label: 'of somebody else' });
  const asked = await deployment((req, res) => {
    const url = new URL(req.url ?? '', 'http://any');
    if (url.pathname === '/v1/chat/completions') {
      label = req.headers['x-request-id'];
      return json({}, 409)(req, res);
    }
    if (url.pathname !== '/v1/events') return json({ data: [{ id: 'gpt' }] })(req, res);
    expect(Object.fromEntries(url.searchParams)).toMatchObject({ org_id: 'org_1' });
    const own = { type: 'request.blocked', request_id: 'req_1', trace_label: label };
    const asks = url.searchParams.get('request_id');
    if (finds === 'a label') return json({ events: asks === label ? [own] : others })(req, res);
    return json({ events: asks === null ? [own] : [] })(req, res);
  });
  Object.assign(asked, { probe: { owner: async () => ({ org_id: 'org_1' }) } });
  expect(await checks.policy(asked)).toMatch(/^blocked with 409 at 1 gateway/);
});

test('an audit that takes longer than there is time is not checked, and a broken one is red', async () => {
  const slow = await deployment(() => undefined);
  const [name, words] = await failure(checks.audit(slow, 50));
  expect([name, words]).toEqual(['NotChecked', expect.stringContaining('npm run audit')]);
  const broken = await deployment(json({ broken: [{ detail: 'wallet w' }] }));
  expect(await failure(checks.audit(broken))).toEqual([
    'Fault',
    'The ledger is broken in 1 place: wallet w',
  ]);
  const away = await deployment(json({}, 503));
  expect((await failure(checks.audit(away)))[0]).toBe('Fault');
});

test('consoles are asked for their readiness, and their versions are of the table', async () => {
  const old: Place = { url: 'http://127.0.0.1:1', kind: 'console', version: '1.3.9' };
  const ready = json({ status: 'ready' });
  const versions = await failure(checks.versions(await deployment(ready, [old])));
  expect(versions).toEqual(['Fault', expect.stringMatching(/^The console at .* is 1\.3\.9; API/)]);
  const draining = await deployment(json({ error: { message: 'It is draining.' } }, 503));
  const own = { ...old, url: draining.apis[0]?.url ?? '', version: '1.5.0' };
  const odd = await failure(checks.ready(await deployment(ready, [own])));
  expect(odd).toEqual(['Fault', expect.stringContaining('It is draining.')]);
  const well = await deployment(ready);
  const good = await deployment(ready, [{ ...own, url: well.apis[0]?.url ?? '' }]);
  expect(await checks.ready(good)).toBe('all are ready: 1 API, 1 gateway, 1 console');
  expect(await checks.versions(good)).toContain('API 1.5.0');
});

test.each([
  ['that waits for another one', 'queued', 'NotChecked', 'canceled'],
  ['that nobody writes', 'running', 'Fault', 'canceled'],
  ['that is there', 'completed', 'passed', 'expired'],
])('a statement %s is ended again', async (_, status, name, end) => {
  let now = status;
  const sums = ['opening', 'closing'].map((type) => ({ currency: 'USD', type, amount_nanos: '5' }));
  const asked = await deployment((req, res) => {
    if (req.method === 'DELETE') now = end;
    const is_file = req.url?.endsWith('/files/0');
    const body = is_file ? { files: [{ sums }] } : { id: 'exp_1', status: now };
    return json(body, req.method === 'POST' ? 201 : 200)(req, res);
  });
  expect((await failure(exportAStatement(asked, 50)))[0]).toBe(name);
  expect(now).toBe(end);
});

/** An API that makes an export for each key, and whose first answers to that are lost. */
async function losing(answers: number) {
  const made = new Map<unknown, string>();
  const ended: (string | undefined)[] = [];
  const sums = ['opening', 'closing'].map((type) => ({ currency: 'USD', type, amount_nanos: '5' }));
  let asks = 0;
  const asked = await deployment((req, res) => {
    if (req.method === 'GET') return json({ status: 'completed', files: [{ sums }] })(req, res);
    if (req.method === 'DELETE') {
      ended.push(req.url);
      return json({})(req, res);
    }
    const key = req.headers['idempotency-key'];
    if (!made.has(key)) made.set(key, `exp_${made.size}`);
    asks += 1;
    return asks > answers ? json({ id: made.get(key) }, 201)(req, res) : req.socket.destroy();
  });
  return { asked, made, ended };
}

test('an export whose answer is lost is asked for again under its key, and ended', async () => {
  const { asked, made, ended } = await losing(1);
  expect((await failure(exportAStatement(asked, 50)))[0]).toBe('passed');
  expect([...made.values()]).toEqual(['exp_0']);
  expect([...made.keys()]).toEqual([expect.stringMatching(/^verify-/)]);
  expect(ended).toEqual(['/v1/exports/exp_0']);
});

test('an export that is not told twice is said to be left', async () => {
  const { asked, ended } = await losing(2);
  const words = expect.stringMatching(/may be left: GET .*\/v1\/admin\/exports/);
  expect(await failure(exportAStatement(asked, 50))).toEqual(['Left', words]);
  expect(ended).toEqual([]);
});

test('the clean-up awaits what still runs, then takes the key back, and names what is left', async () => {
  const order: string[] = [];
  const probe = { close: async () => void order.push('closed') };
  const slow = sleep(50).then(() => {
    order.push('ended');
    return 'well';
  });
  expect(await cleanUp([slow], probe)).toBe('nothing of this is left');
  expect(order).toEqual(['ended', 'closed']);
  const left = [
    Promise.reject(new Error('broke')),
    Promise.reject(new Left('A hold may be left.')),
  ];
  expect(await failure(cleanUp(left, probe))).toEqual(['Fault', 'A hold may be left.']);
  expect(order).toHaveLength(3);
});

test.each([
  ['none is pending', { applied: 110, pending: [] }, 'passed', /^110 migrations, none is pending$/],
  ['one is', { applied: 109, pending: ['0128-x.sql'] }, 'Fault', /^1 migration .*0128-x.sql/],
  ['an older API says nothing', undefined, 'NotChecked', /DATABASE_URL is not set/],
])(
  'with addresses alone an API is asked for its migrations: %s',
  async (_, migrations, name, words) => {
    const found = await failure(
      checks.schema(await deployment(json({ problems: [], migrations }))),
    );
    expect(found).toEqual([name, expect.stringMatching(words)]);
  },
);

test('what was not checked is well, but to the strict', () => {
  const found = (...statuses: Found['status'][]) =>
    statuses.map((status) => ({ check: 'x', status, words: '', ms: 0 }));
  const unseen = found('passed', 'not checked');
  expect(summaryOf(unseen, false)).toEqual({ ok: true, checks: unseen });
  expect(summaryOf(unseen, true)).toEqual({ ok: false, checks: unseen });
  expect(summaryOf(found('passed'), true).ok).toBe(true);
  expect(summaryOf(found('passed', 'failed'), false).ok).toBe(false);
});
