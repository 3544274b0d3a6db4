import { randomBytes, randomUUID } from 'node:crypto';
import { WithStartWorkflowOperation, WorkflowUpdateFailedError } from '@temporalio/client';
import { ActivityFailure, ApplicationFailure } from '@temporalio/common';
import { createActivities } from '../../activities';
import * as verdicts from '../../domain/ledger/verdicts';
import { createSecrets } from '../../domain/secrets';
import { loadConfig } from '../../runtime/config';
import { startOptions } from '../../temporal/starts';
import { secrets } from '../support/api';
import { balance } from '../support/ledger';
import {
  approve,
  makeShort,
  openTicketWorld,
  redeem,
  type Short,
  show,
  type TicketWorld,
  topUp,
} from '../support/tickets';

let world: TicketWorld;

beforeAll(async () => {
  world = await openTicketWorld();
});

afterAll(() => world.close());

/**
 * An approval as an API would write it, by the organization's owner, but good for an hour: a busy
 * machine must not make it late.
 */
async function approval(short: Short, more: object = {}): Promise<verdicts.Verdict> {
  return {
    id: randomUUID(),
    ticket_id: short.ticket_id,
    org_id: short.org_id,
    verdict: 'approved',
    by: 'user_owner',
    is_platform: true,
    valid_until: new Date(Date.now() + 3_600_000).toISOString(),
    amount_nanos: '123000000000',
    ...more,
  };
}

/** Sends it to the ticket's workflow, as whoever reaches Temporal can. */
async function send(short: Short, verdict: unknown): Promise<unknown> {
  const start = { workflow: 'costTicket', workflow_id: short.ticket_id, org_id: short.org_id };
  const startWorkflowOperation = new WithStartWorkflowOperation('costTicket', {
    ...(await startOptions(world.db, start)),
    args: [{ ticket_id: short.ticket_id }],
    workflowIdConflictPolicy: 'USE_EXISTING',
  });
  return world.client.workflow.executeUpdateWithStart('decide', {
    args: [verdict],
    startWorkflowOperation,
  });
}

/** The code with which an update's activity refused it. */
async function refusalOf(sent: Promise<unknown>): Promise<string | null | undefined> {
  const error = await sent.then(
    () => undefined,
    (failure) => failure,
  );
  if (!(error instanceof WorkflowUpdateFailedError)) throw error ?? new Error('It was taken.');
  const cause = error.cause instanceof ActivityFailure ? error.cause.cause : error.cause;
  return cause instanceof ApplicationFailure ? cause.type : undefined;
}

test('a verdict that no API signed changes nothing, whoever reaches Temporal', async () => {
  const short = await makeShort(world, 10);
  const other_key = createSecrets(randomBytes(32).toString('base64'));
  const theirs = await verdicts.signed(other_key, await approval(short));
  const { id: _, ...without_id } = await approval(short);
  const forged = [
    await approval(short),
    await approval(short, { verdict: 'denied' }),
    { ...(await approval(short)), signature: '' },
    { ...(await approval(short)), signature: null },
    { ...(await approval(short)), signature: { toString: () => 'x' } },
    theirs,
    await verdicts.signed(secrets, without_id),
  ];
  for (const verdict of forged)
    expect(await refusalOf(send(short, verdict))).toBe('verdict_not_signed');
  expect((await show(world.call, short)).status).toBe('open');
  expect((await balance(world.db, short.wallet_id)).balance_nanos).toBe(0n);
});

test('a signed verdict of which one member was changed is refused, whichever it is', async () => {
  const short = await makeShort(world, 10);
  const other = await makeShort(world, 10);
  const good = await verdicts.signed(secrets, await approval(short, { amount_nanos: '20000' }));
  const changes = {
    id: randomUUID(),
    ticket_id: other.ticket_id,
    org_id: other.org_id,
    verdict: 'denied',
    by: 'user_somebody',
    is_platform: false,
    valid_until: new Date(Date.now() + 7_200_000).toISOString(),
    amount_nanos: '123000000000',
    wallet_id: other.wallet_id,
    note: 'signed by the owner',
    by_terminal: true,
  };
  for (const [member, value] of Object.entries(changes)) {
    const sent = send(short, { ...good, [member]: value });
    expect([member, await refusalOf(sent)]).toEqual([member, 'verdict_not_signed']);
  }
  expect(await send(short, good)).toBe('approved');
  expect((await show(world.call, other)).status).toBe('open');
});

test('a signed verdict counts once, also if its ticket is opened again', async () => {
  const { call, db, machine } = world;
  const short = await makeShort(world, 10);
  const good = await verdicts.signed(secrets, await approval(short, { amount_nanos: '20000' }));
  expect(await send(short, good)).toBe('approved');
  const credited = (await balance(db, short.wallet_id)).balance_nanos;
  const { body: hold } = await redeem(call, machine, short);
  const { org_id } = short;
  const canceled = await call('post', '/v1/gateway/wallets/settle', {
    key: machine,
    body: { org_id, reservation_id: hold.reservation_id, outcome: 'canceled' },
  });
  expect([canceled.status, (await show(call, short)).status]).toEqual([200, 'open']);
  await send(short, good);
  const { balance_nanos } = await balance(db, short.wallet_id);
  expect(balance_nanos - BigInt(10_000)).toBe(credited);
});

test('a verdict that was refused stays refused, whatever has changed while it is valid', async () => {
  const { call, db } = world;
  const short = await makeShort(world, 10);
  const few = { amount_nanos: '1' };
  const verdict = await verdicts.signed(secrets, await approval(short, few));
  expect(await refusalOf(send(short, verdict))).toBe('amount_below_shortfall');
  // Now it would be enough.
  await topUp(call, short, 10);
  expect(await refusalOf(send(short, verdict))).toBe('amount_below_shortfall');
  expect((await show(call, short)).status).toBe('open');
  // The same from the person, anew, is another verdict.
  const again = await verdicts.signed(secrets, await approval(short, few));
  expect(await send(short, again)).toBe('approved');
  expect((await balance(db, short.wallet_id)).balance_nanos).toBe(1n);
});

test("a ticket's workflow takes no verdict of another ticket", async () => {
  const [short, other] = [await makeShort(world, 10), await makeShort(world, 10)];
  const no = await approval(other, { verdict: 'denied', amount_nanos: undefined });
  const signed = await verdicts.signed(secrets, no);
  expect(await refusalOf(send(short, signed))).toBe('verdict_not_signed');
  for (const ticket of [short, other]) expect((await show(world.call, ticket)).status).toBe('open');
  const { workflow } = world.client;
  expect((await workflow.getHandle(short.ticket_id).describe()).status.name).toBe('RUNNING');
});

test('the approval of a person, through the API, is signed and recorded', async () => {
  const short = await makeShort(world, 10);
  const answer = await approve(world.call, short);
  expect([answer.status, answer.body.status]).toEqual([200, 'approved']);
});

test('an unsigned verdict is recorded only until the date that an operator names', async () => {
  const { db } = world;
  const at = (ms: number) => new Date(Date.now() + ms);
  const short = await makeShort(world, 10);
  const record = (accept_unsigned_until: Date | undefined, verdict: verdicts.Verdict) =>
    createActivities({ db, secrets, payment_hosts: [], accept_unsigned_until }).recordVerdict(
      verdict,
    );
  for (const until of [undefined, at(-1_000)])
    await expect(record(until, await approval(short))).rejects.toMatchObject({
      type: 'verdict_not_signed',
    });
  expect(await record(at(3_600_000), await approval(short))).toBe('approved');

  const env = {
    DATABASE_URL: 'postgres://x',
    TEMPORAL_ADDRESS: '127.0.0.1:7233',
    SVC_SECRETS_KEY: randomBytes(32).toString('base64'),
  };
  const load = (ACCEPT_UNSIGNED_VERDICTS_UNTIL?: string) =>
    loadConfig('worker', { ...env, ACCEPT_UNSIGNED_VERDICTS_UNTIL }).ACCEPT_UNSIGNED_VERDICTS_UNTIL;
  expect(load()).toBeUndefined();
  expect(load('2027-01-31T00:00:00Z')).toEqual(new Date('2027-01-31T00:00:00Z'));
  for (const text of ['true', 'always', '2027']) expect(() => load(text)).toThrow(/2027-01-31/);
});
