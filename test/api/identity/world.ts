import { randomUUID } from 'node:crypto';
import { many } from '../../../domain/sql';
import { type Answer, makeTenant, startApi, type Tenant, type TestApi } from '../../support/api';
import {
  type IdentityProvider,
  issuerFor,
  startIdentityProvider,
} from '../../support/identity/provider';
import { platformKey } from '../../support/keys';

/** A tenant whose people sign in by the sandbox's identity provider. */
export interface IdentityWorld {
  api: TestApi;
  idp: IdentityProvider;
  tenant: Tenant;
  platform: string;
  issuer_id: string;
  /** Signs a person in by an id token of theirs. */
  signIn: (login: string, more?: object) => Promise<Answer>;
  /** Signs in whoever the claims say, with the provider's own signature. */
  signInAs: (
    claims: Record<string, unknown>,
    more?: object,
    header?: Record<string, unknown>,
  ) => Promise<Answer>;
  /** Changes the issuer of the tenant. */
  setIssuer: (more: object) => Promise<void>;
  close: () => Promise<void>;
}

export const NONCE = 'nonce of this test';

export async function openIdentityWorld(): Promise<IdentityWorld> {
  const [api, idp] = await Promise.all([startApi(), startIdentityProvider()]);
  const tenant = await makeTenant(api.db);
  const platform = await platformKey(api.db);
  const body = issuerFor(idp, tenant);
  const made = await api.call('post', '/v1/admin/issuers', { key: platform, body });
  expect(made.status).toBe(201);
  const issuer_id = made.body.id as string;
  const send = async (given: object) => {
    // The bound of an address is looked at elsewhere.
    await many(api.db, 'delete from sign_in_tries');
    return api.call('post', '/v1/sessions', { body: given });
  };
  const now = () => Math.floor(Date.now() / 1_000);
  return {
    api,
    idp,
    tenant,
    platform,
    issuer_id,
    async signIn(login, more = {}) {
      const { id_token, nonce } = await idp.tokens(login);
      return send({ id_token, nonce, ...more });
    },
    async signInAs(claims, more = {}, header = {}) {
      const plain = {
        iss: idp.issuer,
        aud: 'svc-console',
        nonce: NONCE,
        iat: now(),
        exp: now() + 300,
        // A token is good once.
        jti: randomUUID(),
      };
      const id_token = await idp.sign({ ...plain, ...claims }, header);
      return send({ id_token, nonce: NONCE, ...more });
    },
    async setIssuer(more) {
      const path = `/v1/admin/issuers/${issuer_id}`;
      expect((await api.call('put', path, { key: platform, body: more })).status).toBe(200);
    },
    async close() {
      await idp.close();
      await api.close();
    },
  };
}
