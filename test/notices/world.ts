import type { NoticeWays } from '../../activities/notices';
import type { Db } from '../../domain/sql';
import { listen } from '../../runtime/listen';
import { createLog } from '../../runtime/log';
import { createNetworks } from '../../runtime/networks';
import { createMailServer } from '../../sandbox/notices/mail';
import {
  createReceiver,
  createReceiverServer,
  type Receiver,
} from '../../sandbox/notices/receiver';
import { openDispatcher } from '../../workers/dispatcher';
import { type CallApi, serve } from '../support/api';
import { openTestDatabase } from '../support/database';
import { gatewayToken } from '../support/keys';
import { makePrice, reserveBody } from '../support/ledger';
import { bodyHash } from '../support/tickets';
import { repeated, until } from '../support/until';
import { openWorker, type TestWorker } from '../support/worker';

export interface NoticeWorld extends TestWorker {
  db: Db;
  database_url: string;
  call: CallApi;
  other: CallApi;
  machine: string;
  receiver: Receiver;
  /** Where the receivers are. */
  receiver_url: string;
  ways: NoticeWays;
  api_url: string;
  close: () => Promise<void>;
}

const IN_FLIGHT = 50;

export const PUBLIC_URL = 'https://svc.example';

/** An API, a worker with its dispatcher, and the sandbox's receivers. */
export async function openNoticeWorld(): Promise<NoticeWorld> {
  const { db, url: database_url, close: dropDatabase } = await openTestDatabase(30);
  const receiver = createReceiver();
  const server = createReceiverServer(receiver);
  const receiver_url = `http://127.0.0.1:${await listen(server, 0)}`;
  const mail = createMailServer(receiver);
  const smtp_port = await listen(mail.server as never, 0);
  const networks = createNetworks(['127.0.0.0/8']);
  const ways: NoticeWays = {
    networks,
    chat_hosts: ['127.0.0.1'],
    public_url: PUBLIC_URL,
    mail: { smtp_url: `smtp://127.0.0.1:${smtp_port}`, from: 'notices@svc.example' },
    first_pause_ms: 100,
  };
  const worker = await openWorker(db, undefined, undefined, ways);
  const log = createLog('test', 'fatal');
  const dispatcher = openDispatcher({ db, database_url, client: worker.client, log });
  const notice_reach = { networks, chat_hosts: ways.chat_hosts, has_mail: true };
  const api = await serve({ db, temporal: worker.temporal, notice_reach });
  await makePrice(db);
  const close = async () => {
    await dispatcher.close();
    await api.close();
    await worker.close();
    server.closeAllConnections();
    server.close();
    await new Promise<void>((resolve) => mail.close(resolve));
    await dropDatabase();
  };
  const { call, url: api_url } = api;
  const machine = await gatewayToken(db);
  const world = {
    db,
    database_url,
    call,
    other: call,
    machine,
    receiver,
    receiver_url,
    ways,
    api_url,
  };
  return { ...worker, ...world, close };
}

/** A destination of an organization at a receiver, told of all kinds or of some. */
export async function makeDestination(
  { call, receiver_url }: NoticeWorld,
  key: string,
  given: { channel: 'webhook' | 'slack' | 'teams' | 'email'; path?: string; kinds?: string[] },
) {
  const { path, ...rest } = given;
  const url = path === undefined ? {} : { url: `${receiver_url}${path}` };
  const body = { name: `to ${given.channel}`, ...rest, ...url };
  const answer = await call('post', '/v1/notice-destinations', { key, body });
  expect(answer).toMatchObject({ status: 201 });
  return answer.body;
}

/** So many reserves of an organization that nothing covers, each with a ticket of its own. */
export async function burst(
  { call, machine }: Pick<NoticeWorld, 'call' | 'machine'>,
  org_id: string,
  count: number,
): Promise<string[]> {
  const ids: string[] = [];
  const worker = async () => {
    while (ids.length < count) {
      const place = ids.push('') - 1;
      const body = { ...reserveBody(org_id, 100), request_body_hash: bodyHash() };
      const path = '/v1/gateway/wallets/reserve';
      // As a gateway does.
      const answer = await repeated(() => call('post', path, { key: machine, body }));
      ids[place] = answer.body.cost_ticket.id;
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, worker));
  return ids;
}

/** What a look finds, once it finds something. */
export async function present<T>(look: () => T | undefined | Promise<T | undefined>): Promise<T> {
  let found: T | undefined;
  await until(async () => {
    found = await look();
    return found !== undefined;
  });
  return found as T;
}
