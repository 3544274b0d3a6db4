import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import { root } from '../../../runtime/root';

// In a process of its own, as the gateway is one: what it loads is what it pays for.

test('packages of vendors are loaded by the first request of a target that needs them', async () => {
  const args = [path.join(root, 'run.cjs'), path.join(__dirname, 'loaded.ts')];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: root });
  const signature = ['@smithy/signature-v4'];
  const google = [...signature, 'google-auth-library'];
  expect(JSON.parse(stdout)).toEqual({
    start: [],
    key: [],
    // Keys that are named need no chain.
    aws: signature,
    google,
    entra: [...google, '@azure/msal-node'],
  });
});
