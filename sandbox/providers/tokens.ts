import { answer, type Visit } from './relay';
import { signatureError } from './sigv4';

// Who gives credentials that live for a while: AWS's STS, and Entra.

/** What STS knows: whose roles may be taken, and where the keys that it gives are known. */
export interface StsOptions {
  keys: Map<string, { secret: string; session_token?: string }>;
  role_arn: string;
  external_id: string;
  lifetime_s: number;
  now: () => Date;
}

/** POST / of STS: AssumeRole, signed. */
export function serveSts(visit: Visit, options: StsOptions): void {
  const { method, url, headers, bytes } = visit;
  const signing = { keys: options.keys, service: 'sts', region: 'eu-west-1', now: options.now() };
  const refused = signatureError({ method, url, headers, body: bytes }, signing);
  const form = new URLSearchParams(bytes.toString());
  const is_known =
    form.get('Action') === 'AssumeRole' &&
    form.get('RoleArn') === options.role_arn &&
    form.get('ExternalId') === options.external_id;
  if (refused !== undefined || !is_known) {
    denied(visit, refused?.message ?? 'Not allowed.');
    return;
  }
  const id = `ASIASANDBOX${options.keys.size}`;
  const [secret, session_token] = [`secret-of-${id}`, `session-of-${id}`];
  options.keys.set(id, { secret, session_token });
  const end = new Date(options.now().getTime() + options.lifetime_s * 1_000).toISOString();
  xml(
    visit,
    200,
    `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult>` +
      `<Credentials><AccessKeyId>${id}</AccessKeyId><SecretAccessKey>${secret}</SecretAccessKey>` +
      `<SessionToken>${session_token}</SessionToken><Expiration>${end}</Expiration></Credentials>` +
      `<AssumedRoleUser><Arn>${options.role_arn}/svc</Arn><AssumedRoleId>A:svc</AssumedRoleId>` +
      '</AssumedRoleUser></AssumeRoleResult></AssumeRoleResponse>',
  );
}

function denied(visit: Visit, message: string): void {
  xml(
    visit,
    403,
    `<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>${message}</Message></Error></ErrorResponse>`,
  );
}

function xml({ res }: Visit, status: number, text: string): void {
  res.writeHead(status, { 'content-type': 'text/xml' });
  res.end(text);
}

/** What Entra knows of one application. */
export interface EntraOptions {
  tenant: string;
  client_id: string;
  client_secret: string;
  /** The assertion of a workload that stands for the application. */
  assertion: string;
  scope: string;
  lifetime_s: number;
  /** Where the tokens that it gives are known. */
  bearers: Set<string>;
  /** What tells a machine its identity: the secret of its apps, and whether it is away. */
  machine: { secret: string; is_down: boolean };
}

/** POST /{tenant}/oauth2/v2.0/token: client credentials, by secret or assertion. */
export function serveEntra(visit: Visit, options: EntraOptions): void {
  const form = new URLSearchParams(visit.bytes.toString());
  const is_proved =
    form.get('client_secret') === options.client_secret ||
    (form.get('client_assertion') === options.assertion &&
      form.get('client_assertion_type')?.endsWith('jwt-bearer') === true);
  const is_known =
    visit.path.startsWith(`/${options.tenant}/oauth2/v2.0/token`) &&
    form.get('client_id') === options.client_id &&
    String(form.get('scope')).split(' ').includes(options.scope);
  if (!is_proved || !is_known) {
    const error_description = 'AADSTS7000215: Invalid client secret provided.';
    answer(visit, 401, { error: 'invalid_client', error_description });
    return;
  }
  const token = `eyJ.entra.${options.bearers.size + 1}`;
  options.bearers.add(token);
  answer(visit, 200, {
    token_type: 'Bearer',
    expires_in: options.lifetime_s,
    ext_expires_in: options.lifetime_s,
    access_token: token,
  });
}

/**
 * What tells a machine of Azure its own identity, below `/imds`: a virtual machine by the path of
 * its metadata and the header `Metadata`, an app of App Service by a secret of its own.
 */
export function serveImds(visit: Visit, options: EntraOptions): void {
  const url = new URL(visit.path, 'http://sandbox');
  const { headers } = visit;
  // Microsoft's own client puts a slash behind the path.
  const at = url.pathname.replace(/\/$/, '');
  const version = url.searchParams.get('api-version');
  const is_machine =
    at === '/metadata/identity/oauth2/token' &&
    headers.metadata === 'true' &&
    version === '2018-02-01';
  const is_app =
    at === '/msi/token' &&
    headers['x-identity-header'] === options.machine.secret &&
    version === '2019-08-01';
  const { resource, client_id } = Object.fromEntries(url.searchParams);
  const is_known = client_id === undefined || client_id === options.client_id;
  const is_asked = visit.method === 'GET' && (is_machine || is_app) && is_known;
  if (options.machine.is_down || !is_asked || `${resource}/.default` !== options.scope) {
    const status = options.machine.is_down ? 500 : 400;
    answer(visit, status, { error: 'invalid_request', error_description: 'Identity not found' });
    return;
  }
  const token = `eyJ.machine.${options.bearers.size + 1}`;
  options.bearers.add(token);
  const end = Math.floor(Date.now() / 1_000) + options.lifetime_s;
  answer(visit, 200, {
    access_token: token,
    client_id: options.client_id,
    expires_in: String(options.lifetime_s),
    expires_on: String(end),
    resource,
    token_type: 'Bearer',
  });
}
