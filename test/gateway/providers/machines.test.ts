import { createServer } from 'node:http';
import { googleToken } from '../../../gateway/upstreams/credentials/google';
import { listen } from '../../../runtime/listen';
import { ask, openSold, openTold, options, origin, targets, visits } from './sold';

// The identity of a machine of Azure, as the machine's own service tells it.

const target = () => ({
  ...targets().find(({ id }) => id === 'az'),
  auth: { entra: 'managed_identity' },
});
const machines = {
  'a virtual machine': { AZURE_POD_IDENTITY_AUTHORITY_HOST: '/imds' },
  'an app': { IDENTITY_ENDPOINT: '/imds/msi/token', IDENTITY_HEADER: 'machine-secret' },
};

/** The variables of a machine whose metadata the sandbox serves. */
function use(machine: Record<string, string>): void {
  for (const name of Object.values(machines).flatMap((one) => Object.keys(one)))
    delete process.env[name];
  process.env.GATEWAY_AMBIENT_AUTH = 'azure';
  for (const [name, value] of Object.entries(machine))
    process.env[name] = value.startsWith('/') ? `${origin}${value}` : value;
}

const asked = (prefix: string) => visits.filter(({ url }) => url.startsWith(prefix));

test.each(Object.entries(machines))(
  '%s gives a token once, and another for one that is refused',
  async (_, machine) => {
    use(machine);
    const at = await openSold({}, [target()]);
    const first = await ask('az', 'Hello', { at });
    expect([first.status, asked('/imds').length]).toEqual([200, 1]);
    const [, token] = /^Bearer (.+)$/.exec(asked('/azure')[0]?.headers.authorization ?? '') ?? [];
    expect(token).toMatch(/^eyJ\.machine\./);
    expect(asked('/azure')[0]?.headers['api-key']).toBeUndefined();
    await ask('az', 'Hello', { at });
    expect(asked('/imds')).toEqual([]);
    options.entra.bearers.delete(token as string);
    const third = await ask('az', 'Hello', { at });
    expect([third.status, asked('/imds').length, asked('/azure').length]).toEqual([200, 1, 2]);
  },
);

test('one of several identities is chosen by its client', async () => {
  use(machines['a virtual machine']);
  for (const [AZURE_CLIENT_ID, status] of [
    ['app-1', 200],
    ['another', 502],
  ] as const) {
    process.env.AZURE_CLIENT_ID = AZURE_CLIENT_ID;
    // Credentials live on in the same gateway only.
    const at = await openSold({}, [target()]);
    expect((await ask('az', 'Hello', { at })).status).toBe(status);
    expect(asked('/imds')[0]?.url).toContain(`client_id=${AZURE_CLIENT_ID}`);
  }
  delete process.env.AZURE_CLIENT_ID;
});

test('a machine that tells nothing is the failure of its target, and the log has no token', async () => {
  use(machines['an app']);
  options.entra.machine.is_down = true;
  const { made, told } = await openTold([target()]);
  const { status, text } = await ask('az', 'Hello', { at: made.url });
  options.entra.machine.is_down = false;
  expect([status, asked('/azure')]).toEqual([502, []]);
  expect(text).not.toMatch(/[Ii]dentity|imds/);
  expect(told[0]?.[1]).toBe('there is no credential for a provider');
  expect(JSON.stringify(told)).not.toContain('machine-secret');
});

test('a machine of Google that was slow to say who it is says so at the next call', async () => {
  let is_silent = true;
  const asked: string[] = [];
  const metadata = createServer(({ url = '' }, res) => {
    asked.push(url);
    if (is_silent) return void res.destroy();
    res.writeHead(200, { 'content-type': 'application/json', 'metadata-flavor': 'Google' });
    res.end(
      JSON.stringify({ access_token: 'ya29.machine', expires_in: 3_600, token_type: 'Bearer' }),
    );
  });
  const host = `127.0.0.1:${await listen(metadata, 0)}`;
  Object.assign(process.env, {
    GATEWAY_AMBIENT_AUTH: 'google',
    GATEWAY_AMBIENT_ORIGINS: `http://${host}`,
    GCE_METADATA_HOST: host,
    CLOUDSDK_CONFIG: '/nowhere',
  });
  const scope = 'https://www.googleapis.com/auth/cloud-platform';
  try {
    await expect(googleToken({}, scope)).rejects.toThrow();
    is_silent = false;
    expect((await googleToken({}, scope)).value).toBe('ya29.machine');
    expect(asked.at(-1)).toContain('/service-accounts/default/token');
  } finally {
    delete process.env.GCE_METADATA_HOST;
    metadata.close();
  }
});
