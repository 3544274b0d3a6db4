import { createServer, type Server, type Socket } from 'node:net';
import { sendMail } from '../../notices/mail';
import { listen } from '../../runtime/listen';
import { createMailServer } from '../../sandbox/notices/mail';
import { createReceiver } from '../../sandbox/notices/receiver';

// What becomes of a mail before servers on a bad day.

const receiver = createReceiver();
const mail = createMailServer(receiver);
let server: { smtp_url: string; from: string };
const opened: Server[] = [];
const sockets: Socket[] = [];

beforeAll(async () => {
  const port = await listen(mail.server as never, 0);
  server = { smtp_url: `smtp://127.0.0.1:${port}`, from: 'notices@svc.example' };
});
afterEach(() => {
  receiver.clearFaults();
  receiver.arrivals.length = 0;
});
afterAll(async () => {
  for (const socket of sockets) socket.destroy();
  for (const one of opened) one.close();
  await new Promise<void>((done) => mail.close(done));
});

const letter = (...addresses: string[]) => ({
  ...{ id: 'msg_1', addresses, title: 'A request waits', facts: [], links: [] },
});

/** A server that says these lines, each after what it is asked and a pause. */
async function scripted(lines: string[], pause_ms: number) {
  const one = createServer((socket) => {
    sockets.push(socket);
    const left = [...lines];
    const say = () =>
      setTimeout(() => left.length > 0 && socket.write(`${left.shift()}\r\n`), pause_ms);
    socket.on('error', () => undefined).on('data', say);
    say();
  });
  opened.push(one);
  return {
    smtp_url: `smtp://127.0.0.1:${await listen(one as never, 0)}`,
    from: 'notices@svc.example',
  };
}

test('what is taken over is delivered to all', async () => {
  expect(await sendMail(letter('a@example.com', 'b@example.com'), server)).toEqual({
    ...{ outcome: 'delivered', status: 250, error: null },
  });
  expect(receiver.arrivals[0]?.headers.to).toEqual(['a@example.com', 'b@example.com']);
});

test('of two recipients one that is refused is named, and the other is told', async () => {
  receiver.addFault({ path: 'mail to a@example.com', answer: 'error', status: 550 });
  expect(await sendMail(letter('a@example.com', 'b@example.com'), server)).toEqual({
    ...{ outcome: 'delivered', status: 250, error: 'The mail server refused a@example.com.' },
  });
  expect(receiver.arrivals[0]?.headers.to).toEqual(['b@example.com']);
});

test('of three recipients the one who is put off is named apart from the one who is refused', async () => {
  receiver.addFault({ path: 'mail to a@example.com', answer: 'error', status: 550 });
  receiver.addFault({ path: 'mail to b@example.com', answer: 'error', status: 451 });
  const all = ['a@example.com', 'b@example.com', 'c@example.com'];
  expect(await sendMail(letter(...all), server)).toEqual({
    ...{ outcome: 'refused', status: 451 },
    error: 'The mail server refused a@example.com. The mail server put off b@example.com.',
    left: { put_off: ['b@example.com'], refused: ['a@example.com'] },
  });
  expect(receiver.arrivals[0]?.headers.to).toEqual(['c@example.com']);
  // The log still says who was refused, once the other is told.
  const again = { ...letter('b@example.com'), refused: ['a@example.com'] };
  expect(await sendMail(again, server)).toEqual({
    ...{ outcome: 'delivered', status: 250, error: 'The mail server refused a@example.com.' },
  });
});

test.each([
  [421, 'failed'],
  [451, 'failed'],
  [552, 'refused'],
] as const)('a mail that is answered %i is %s', async (status, outcome) => {
  receiver.addFault({ path: 'mail', answer: 'error', status });
  expect(await sendMail(letter('a@example.com'), server)).toEqual({
    ...{ outcome, status, error: `The mail server answered ${status}.` },
  });
});

test.each([
  ['mail to a@example.com', 450, 'refused'],
  ['mail to a@example.com', 501, 'refused'],
  ['mail', 451, 'failed'],
] as const)(
  '%s of an address that nobody confirmed, answered %i, is %s',
  async (path, status, outcome) => {
    receiver.addFault({ path, answer: 'error', status });
    const letter_to_one = { ...letter('a@example.com'), is_trial: true };
    expect(await sendMail(letter_to_one, server)).toMatchObject({ outcome, status });
  },
);

test('a server that answers nothing, or each step late, has ten seconds in all', async () => {
  const silent = await scripted([], 0);
  const slow = await scripted(
    ['220 hello', '250 hello', '250 ok', '250 ok', '354 go', '250 ok'],
    4_000,
  );
  const outcomes = await Promise.all(
    [silent, slow].map((one) => sendMail(letter('a@example.com'), one)),
  );
  for (const outcome of outcomes)
    expect(outcome).toMatchObject({ outcome: 'failed', status: null });
  expect(outcomes[1]?.error).toBe('The mail server did not take it within 10 seconds.');
});

test('without a server, and where none listens, it has failed', async () => {
  expect(await sendMail(letter('a@example.com'), undefined)).toMatchObject({
    ...{ outcome: 'failed', error: expect.stringContaining('NOTICE_SMTP_URL') },
  });
  const nowhere = { ...server, smtp_url: 'smtp://127.0.0.1:9' };
  expect(await sendMail(letter('a@example.com'), nowhere)).toMatchObject({ outcome: 'failed' });
});
