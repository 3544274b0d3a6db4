import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { promisify } from 'node:util';
import { Pool } from 'undici';
import { connector, fetch, isClosed, openLookup } from '../../runtime/outgoing';

test('link-local and metadata addresses are closed in every spelling', () => {
  for (const address of [
    '169.254.169.254',
    '169.254.0.1',
    '0.0.0.0',
    '0.1.2.3',
    '100.100.100.200',
    '168.63.129.16',
    '192.0.0.192',
    '::',
    'fe80::1',
    'febf::1',
    '[fe80::1]',
    'fd00:ec2::254',
    'fd20:ce::254',
    '::ffff:169.254.169.254',
    '::ffff:a9fe:a9fe',
    '[::ffff:a9fe:a9fe]',
    '64:ff9b::a9fe:a9fe',
    '2002:a9fe:a9fe::1',
    '::a9fe:a9fe',
    'fd00:ec2::23',
    '64:ff9b::6464:64c8',
    '64:ff9b::a83f:8110',
    '64:ff9b::',
    '64:ff9b:1::a9fe:a9fe',
    '2002:6464:64c8::',
    '::ffff:0:a9fe:a9fe',
    '0:0:0:0:0:0:a9fe:a9fe',
  ])
    expect([address, isClosed(address)]).toEqual([address, true]);
});

test('addresses of this machine, of private networks and of the internet are open, and so are names', () => {
  for (const address of [
    '127.0.0.1',
    '::1',
    '10.0.0.1',
    '192.168.1.1',
    '172.16.0.1',
    '169.253.255.255',
    '169.255.0.0',
    '8.8.8.8',
    'fd00::1',
    'fec0::1',
    '2606:4700::1111',
    // What a translator makes of a public address, in a network that has only IPv6.
    '64:ff9b::808:808',
    '2002:808:808::1',
    '0:0:0:0:0:0:0:1',
    'localhost',
    'api.example.com',
  ])
    expect([address, isClosed(address)]).toEqual([address, false]);
});

test.each([
  'http://169.254.169.254/latest/meta-data',
  'http://2852039166/', // The same as one number,
  'http://0xA9FEA9FE/', // in hexadecimal digits,
  'http://0251.0376.0251.0376/', // and in octal ones.
  'http://[fe80::1]/',
  'http://[::ffff:169.254.169.254]/',
  'http://0.0.0.0:8099/',
])('nothing is sent to %s', async (url) => {
  const closed = { cause: { code: 'ERR_CLOSED_ADDRESS' } };
  await expect(fetch(url)).rejects.toMatchObject(closed);
  const pool = new Pool(new URL(url).origin, { connect: connector() });
  await expect(pool.request({ path: '/', method: 'GET' })).rejects.toMatchObject(closed.cause);
  await pool.close();
});

test('a name is judged by what it resolves to, and one that resolves to this machine is reached', async () => {
  const server = createServer((_request, response) => response.end('here')).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const answer = await fetch(`http://localhost:${port}/`);
  expect(await answer.text()).toBe('here');
  server.close();
  // A resolver that takes numbers as names gives what the system gives: the address is looked at.
  const resolve = promisify(openLookup as never) as (name: string, options: object) => unknown;
  await expect(resolve('169.254.169.254', {})).rejects.toMatchObject({
    code: 'ERR_CLOSED_ADDRESS',
  });
  await expect(resolve('169.254.169.254', { all: true })).rejects.toMatchObject({
    code: 'ERR_CLOSED_ADDRESS',
  });
});
