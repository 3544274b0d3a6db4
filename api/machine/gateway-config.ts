import { z } from 'zod';
import { AppError } from '../../domain/errors';
import * as configs from '../../domain/gateway-config';
import * as answers from '../answers/machine';
import * as shared from '../answers/shared';
import { controlPlane, platformAdmin } from '../http/access';
import { answerUnlessKnown } from '../http/etags';
import { id, instant, page } from '../http/fields';
import { type Ctx, route } from '../http/route';

const CONFIG_MAX_CHARACTERS = 1_000_000;

const nothing = z.strictObject({});
const paged = z.strictObject(page);
const change = z.strictObject({
  config: z
    .record(z.string(), z.unknown())
    .refine((config) => JSON.stringify(config).length <= CONFIG_MAX_CHARACTERS, {
      message: `may have at most ${CONFIG_MAX_CHARACTERS} characters`,
    })
    .describe(
      "A whole configuration, as in the gateway's YAML file. Secrets are named by environment variable.",
    ),
  note: z.string().trim().max(500).optional(),
});
const report = z.strictObject({
  id: z.string().min(1).max(200).describe('Made by the gateway when it starts.'),
  host: id.describe('The machine it runs on.'),
  config_version: z.int().min(1).nullable().describe('What it runs; null: its own file.'),
  config_hash: id.describe('Names the running configuration by its content.'),
  refused_version: z.int().min(1).nullable().describe('The newest version that it refused.'),
  error: z.string().max(10_000).nullable().describe('Why it refused that version.'),
  started_at: instant.describe('When its process began.'),
});

export const gatewayConfigRoutes = [
  route({
    method: 'get',
    path: '/v1/admin/gateway-config',
    access: platformAdmin,
    input: nothing,
    handler: show,
    summary: 'The configuration that gateways are to run, and what each of them runs.',
    answer: answers.gatewayConfig,
  }),
  route({
    method: 'put',
    path: '/v1/admin/gateway-config',
    access: platformAdmin,
    input: change,
    is_large: true,
    handler: put,
    is_recorded: true,
    summary:
      'Give gateways another configuration, in place of their file. Each takes it within seconds, or keeps its own and says why.',
    answer: answers.gatewayConfigVersion,
  }),
  route({
    method: 'delete',
    path: '/v1/admin/gateway-config',
    access: platformAdmin,
    input: nothing,
    handler: remove,
    is_recorded: true,
    summary: 'Send gateways back to their own files.',
    answer: answers.gatewayConfigVersion,
  }),
  route({
    method: 'get',
    path: '/v1/admin/gateway-config/versions',
    access: platformAdmin,
    input: paged,
    handler: versions,
    summary: 'All versions, newest first. Going back is putting an old one again.',
    answer: shared.list({ versions: answers.gatewayConfigVersion }),
  }),
  route({
    method: 'get',
    path: '/v1/gateway/config',
    access: controlPlane,
    input: nothing,
    handler: poll,
    summary: 'What a gateway is to run. Carries an ETag; 404 where it runs its own file.',
    answer: answers.polledConfig,
  }),
  route({
    method: 'post',
    path: '/v1/gateway/config/report',
    access: controlPlane,
    input: report,
    handler: note,
    summary: 'What a gateway runs.',
    answer: shared.nothing,
  }),
];

async function show({ db }: Ctx) {
  const current = await configs.current(db);
  if (current === undefined) return { version: null, config: null, gateways: await states(db) };
  return { ...shown(current), gateways: await states(db) };
}

async function put({ db, principal }: Ctx, { config, note: why }: z.infer<typeof change>) {
  const by = principal.user_id ?? principal.id;
  return shown(await configs.put(db, { config, note: why ?? null, by }));
}

async function remove({ db, principal }: Ctx) {
  const by = principal.user_id ?? principal.id;
  return shown(await configs.put(db, { config: null, note: null, by }));
}

async function versions({ db }: Ctx, window: z.infer<typeof paged>) {
  const { rows, ...envelope } = await configs.versions(db, window);
  return { versions: rows.map(shown), ...envelope };
}

async function poll({ db, http }: Ctx) {
  const current = await configs.current(db);
  if (current === undefined || current.config === null)
    throw new AppError('not_found', 'Gateways run their own files: PUT /v1/admin/gateway-config.');
  const { version, config } = shown(current);
  http.type = 'json';
  answerUnlessKnown(http, String(version), JSON.stringify({ version, config }));
}

async function note({ db, http }: Ctx, given: z.infer<typeof report>) {
  const software_version = http.get('x-svc-gateway-version') || null;
  const { config_version, refused_version } = given;
  await configs.report(db, {
    ...given,
    software_version,
    config_version: config_version === null ? null : BigInt(config_version),
    refused_version: refused_version === null ? null : BigInt(refused_version),
  });
  return {};
}

async function states(db: Ctx['db']) {
  return (await configs.running(db)).map((state) => ({
    ...state,
    config_version: state.config_version === null ? null : Number(state.config_version),
    refused_version: state.refused_version === null ? null : Number(state.refused_version),
  }));
}

function shown({ version, ...row }: configs.GatewayConfig) {
  return { version: Number(version), ...row };
}
