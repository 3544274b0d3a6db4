import { answer, relay, relayForm, standIn, type Visit } from './relay';

/**
 * Azure OpenAI in both forms, and Claude beside it: `api-key`, or a bearer of Entra; the dated form
 * takes its deployment from the path and wants its version.
 */
export interface AzureOptions {
  keys: ReadonlySet<string>;
  bearers: ReadonlySet<string>;
  deployments: ReadonlySet<string>;
}

const dated = /^\/openai\/deployments\/([^/]+)(\/.+)$/;

export async function serveAzure(visit: Visit, options: AzureOptions): Promise<void> {
  const { headers, body } = visit;
  const url = new URL(visit.path, 'http://sandbox');
  const bearer = /^Bearer (\S+)$/.exec(headers.authorization ?? '')?.[1] ?? '';
  if (url.pathname.startsWith('/anthropic/')) {
    if (!options.keys.has(String(headers['x-api-key'] ?? '')) && !options.bearers.has(bearer))
      return answer(visit, 401, {
        type: 'error',
        error: { type: 'authentication_error', message: 'Access denied.' },
      });
    const model = standIn(String(body.model));
    return relay(visit, url.pathname.replace('/anthropic', ''), { ...body, model });
  }
  if (!options.keys.has(String(headers['api-key'] ?? '')) && !options.bearers.has(bearer))
    return refuse(visit, 401, '401', 'Access denied due to invalid subscription key.');
  const version = url.searchParams.get('api-version');
  const found = dated.exec(url.pathname);
  if (found !== null) {
    const [, deployment = '', path = ''] = found;
    if (version === null) return refuse(visit, 404, '404', 'Resource not found');
    return deployed(visit, decodeURIComponent(deployment), path, options);
  }
  if (!url.pathname.startsWith('/openai/v1/') && version === null)
    return refuse(visit, 404, '404', 'Resource not found');
  const path = url.pathname.replace(/^\/openai(?:\/v1)?/, '');
  return deployed(visit, String(body.model), path, options);
}

async function deployed(
  visit: Visit,
  deployment: string,
  path: string,
  { deployments }: AzureOptions,
): Promise<void> {
  const { body } = visit;
  if (!deployments.has(deployment))
    return refuse(
      visit,
      404,
      'DeploymentNotFound',
      'The API deployment for this resource does not exist.',
    );
  const text = JSON.stringify(body);
  if (text.includes('filter this')) return filtered(visit);
  const type = visit.headers['content-type'] ?? '';
  if (type.startsWith('multipart/')) return relayForm(visit, `/v1${path}`, type);
  await relay(visit, `/v1${path}`, { ...body, model: standIn(deployment) });
}

function filtered(visit: Visit): void {
  answer(visit, 400, {
    error: {
      message: "The response was filtered due to the prompt triggering Azure's policy.",
      type: null,
      param: 'prompt',
      code: 'content_filter',
      status: 400,
      innererror: { code: 'ResponsibleAIPolicyViolation', content_filter_result: {} },
    },
  });
}

function refuse(visit: Visit, status: number, code: string, message: string): void {
  answer(visit, status, { error: { code, message } });
}
