import { randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type {
  ClientMetadata,
  Configuration,
  JWK,
  KoaContextWithOIDC,
  Provider,
} from 'oidc-provider';
import { escaped, htmlPage } from '../payments/pages';
import { client_id, gateway_audience, groups, people, redirect_uris } from './people';

// An identity provider on this machine, made with oidc-provider: real tokens, and people who sign
// in by a click, or by a login_hint without one.

const RESOURCE = 'urn:svc:gateway';
const RESOURCE_SCOPE = 'models';
const HOUR_S = 3_600;
const FORM_BYTES_MAX = 2_000;
const INTERACTION = '/interaction/';
const look = { name: 'Sandbox: sign in', colour: '#3b3f8f' };

export interface IdentityOptions {
  /** `iss` of its tokens, which is where it listens. */
  issuer: string;
  /** The private keys that sign. */
  keys: readonly JWK[];
  /** The team of the group research, which its people's tokens name; none if undefined. */
  team_id?: string | undefined;
}

/** The identity provider as a server that does not listen yet. */
export async function createIdentityServer(options: IdentityOptions): Promise<Server> {
  // A package of ES modules only.
  const { Provider } = await import('oidc-provider');
  const provider = new Provider(options.issuer, configuration(options));
  const serveOidc = provider.callback();
  return createServer((req, res) => {
    if (!req.url?.startsWith(INTERACTION)) return void serveOidc(req, res);
    return void interact(provider, req, res).catch((error: Error) => {
      if (!res.headersSent)
        show(res, 400, `<h1>That did not work</h1><p>${escaped(error.message)}</p>`);
    });
  });
}

const client = (id: string): ClientMetadata => ({
  client_id: id,
  // Ports of loopback addresses are free for native clients.
  application_type: 'native',
  token_endpoint_auth_method: 'none',
  redirect_uris: [...redirect_uris],
  grant_types: ['authorization_code'],
  response_types: ['code'],
});

function configuration({ keys, team_id }: IdentityOptions): Configuration {
  return {
    // The second is another product's, whose tokens the control plane must refuse.
    clients: [client(client_id), client('another-product')],
    jwks: { keys: [...keys] },
    cookies: { keys: [randomBytes(32).toString('hex')] },
    scopes: ['openid', 'email', 'profile', 'groups'],
    claims: {
      openid: ['sub'],
      email: ['email', 'email_verified'],
      profile: ['name'],
      groups: ['groups'],
    },
    // The id token holds them all, as those of most providers do.
    conformIdTokenClaims: false,
    pkce: { required: () => true },
    ttl: {
      AccessToken: HOUR_S,
      IdToken: HOUR_S,
      AuthorizationCode: 60,
      Session: HOUR_S,
      Grant: HOUR_S,
      Interaction: 600,
    },
    interactions: { url: (_, { uid }) => `${INTERACTION}${uid}` },
    loadExistingGrant: grantAll,
    findAccount: (_, sub) => {
      const found = people.find(({ login }) => login === sub);
      if (found === undefined) return undefined;
      const { login, what: _what, ...claims } = found;
      return {
        accountId: login,
        claims: async () => ({ sub: login, ...claims, groups: [...claims.groups] }),
      };
    },
    extraTokenClaims: (_, token) => {
      const sub = 'accountId' in token ? token.accountId : undefined;
      const is_in = people.some((one) => one.login === sub && one.groups.includes(groups.research));
      return is_in && team_id !== undefined ? { kt_team_id: team_id } : undefined;
    },
    features: {
      devInteractions: { enabled: false },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => RESOURCE,
        useGrantedResource: () => true,
        getResourceServerInfo: () => ({
          scope: RESOURCE_SCOPE,
          audience: gateway_audience,
          accessTokenFormat: 'jwt',
          accessTokenTTL: HOUR_S,
          jwt: { sign: { alg: 'RS256' } },
        }),
      },
    },
  };
}

/** Nobody is asked what they agree to: the product may know all of this. */
async function grantAll(ctx: KoaContextWithOIDC) {
  const { client, session, provider } = ctx.oidc;
  if (client === undefined || session?.accountId === undefined) return undefined;
  const grant = new provider.Grant({ clientId: client.clientId, accountId: session.accountId });
  grant.addOIDCScope('openid email profile groups');
  grant.addResourceScope(RESOURCE, RESOURCE_SCOPE);
  await grant.save();
  return grant;
}

/** Signs in whom the login_hint or the click names; shows the people otherwise. */
async function interact(
  provider: Provider,
  req: IncomingMessage,
  res: ServerResponse,
): Promise<void> {
  const { params, prompt } = await provider.interactionDetails(req, res);
  // A native client asks each time; its person may know all of this already (grantAll).
  if (prompt.name === 'consent') return provider.interactionFinished(req, res, { consent: {} });
  const clicked = req.method === 'POST' ? new URLSearchParams(await read(req)).get('login') : null;
  const login = clicked ?? params.login_hint;
  if (people.some((one) => one.login === login))
    return provider.interactionFinished(
      req,
      res,
      { login: { accountId: String(login) } },
      { mergeWithLastSubmission: false },
    );
  const rows = people.map(
    (one) =>
      `<p><button name="login" value="${one.login}">${escaped(one.name)}</button> ${escaped(one.email)}: ${escaped(one.what)}</p>`,
  );
  return show(res, 200, `<h1>Who are you?</h1><form method="post">${rows.join('')}</form>`);
}

async function read(req: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of req) {
    text += chunk;
    if (text.length > FORM_BYTES_MAX) throw new Error('The form is too long.');
  }
  return text;
}

function show(res: ServerResponse, status: number, body: string): void {
  res.writeHead(status, {
    'content-type': 'text/html; charset=utf-8',
    'cache-control': 'no-store',
  });
  res.end(htmlPage(look, body));
}
