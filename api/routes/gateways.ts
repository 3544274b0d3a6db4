import { z } from 'zod';
import { AppError } from '../../domain/errors';
import * as configs from '../../domain/gateways/configs';
import * as fleet from '../../domain/gateways/fleet';
import { DEFAULT_GROUP } from '../../domain/gateways/groups';
import * as rollouts from '../../domain/gateways/rollout-changes';
import { listedKinds } from '../../gateway/config/kinds';
import { checkConfig, hashOf } from '../../gateway/config/settings';
import { API_VERSION, fitsWithApi } from '../../runtime/version';
import * as answers from '../answers/gateways';
import * as shared from '../answers/shared';
import { actorOf, platformAdmin } from '../http/access';
import { gatewayGroup, page } from '../http/fields';
import { type Ctx, route } from '../http/route';
import { newRollout, rulesOf, shownRollout } from './config-rollouts';

const CONFIG_MAX_CHARACTERS = 1_000_000;
const PROBLEMS_MAX = 100;

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
  dry_run: z.boolean().default(false).describe('Only says what it would be and change.'),
  rollout: newRollout
    .omit({ version: true, note: true })
    .optional()
    .describe('Absent: all gateways take it at once.'),
});
const shownOf = z.strictObject({
  group: gatewayGroup.default(DEFAULT_GROUP).describe('GATEWAY_GROUP of the gateways.'),
});
const listed = z.strictObject({ group: gatewayGroup.optional() });

/** Configurations of gateways, and the gateways that run them. */
export const gatewayRoutesOfAdmins = [
  route({
    method: 'get',
    path: '/v1/admin/gateway-config',
    access: platformAdmin,
    input: shownOf,
    handler: show,
    summary:
      'The configuration that the gateways of a group are to run which no rollout is moving, and what each gateway runs.',
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
      'Give gateways another configuration, in place of their file: to all within a second, or in stages with rollout. One that no gateway could run is refused with every path.',
    answer: answers.putConfig,
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
    path: '/v1/admin/provider-kinds',
    access: platformAdmin,
    input: nothing,
    handler: async () => ({ kinds: listedKinds() }),
    summary:
      'The kinds of providers that a target of a gateway may name: where each is, and what a target must say of it.',
    answer: answers.providerKinds,
  }),
  route({
    method: 'get',
    path: '/v1/admin/gateway-config/versions',
    access: platformAdmin,
    input: paged,
    handler: versions,
    summary:
      'All versions, newest first. Going back is a rollout of an old one, or putting it again.',
    answer: shared.list({ versions: answers.gatewayConfigVersion }),
  }),
  route({
    method: 'get',
    path: '/v1/admin/gateways',
    access: platformAdmin,
    input: listed,
    handler: list,
    summary:
      'Every gateway: what it runs and is to run, and how its calls end. A silent one for 10 minutes.',
    answer: answers.gateways,
  }),
];

async function show({ db }: Ctx, { group }: z.infer<typeof shownOf>) {
  const current = await configs.ofGroup(db, group);
  const gateways = (await fleet.running(db)).map(stateOf);
  if (current === undefined) return { version: null, config: null, gateways };
  return { ...shown(current), gateways };
}

async function put({ db, principal }: Ctx, given: z.infer<typeof change>) {
  const { config, rollout } = given;
  const { settings, problems } = checkConfig(config);
  if (settings === undefined) throw invalid(problems);
  const by = actorOf(principal);
  const note = given.note ?? null;
  const config_hash = hashOf(settings);
  const is_staged = rollout !== undefined;
  await configs.lockConfigs(db);
  const wanted = { config, config_hash, note, by, is_staged };
  if (given.dry_run) {
    if (rollout !== undefined) await rollouts.requireStages(db, rulesOf(rollout));
    const draft = await configs.draft(db, wanted);
    const unmade = { version: null, created_by: null, created_at: null, rollout: null };
    return { ...draft, is_staged, note, ...unmade };
  }
  const made = await configs.put(db, wanted);
  if (rollout === undefined) {
    await rollouts.supersede(db, null, `Version ${made.version} for all gateways took its place.`);
    return { ...shown(made), rollout: null };
  }
  const version = Number(made.version);
  const started = await rollouts.create(db, { version, ...rulesOf(rollout), note, by });
  return { ...shown(made), rollout: shownRollout(started) };
}

/** All that is wrong, each with its path; `param` names the first. */
function invalid(problems: readonly { path: string; message: string }[]): AppError {
  const [first] = problems;
  const lines = problems.slice(0, PROBLEMS_MAX);
  const words = lines.map(({ path, message }) => `${path}: ${message}`).join('; ');
  return new AppError(
    'invalid_configuration',
    `No gateway could run this configuration. ${words}`,
    {
      param: `config.${first?.path}`,
      extra: { problems: lines },
    },
  );
}

async function remove({ db, principal }: Ctx) {
  const by = actorOf(principal);
  await configs.lockConfigs(db);
  const made = await configs.put(db, { config: null, config_hash: null, note: null, by });
  await rollouts.supersede(db, null, 'Gateways were sent back to their own files.');
  return shown(made);
}

async function versions({ db }: Ctx, window: z.infer<typeof paged>) {
  const { rows, ...envelope } = await configs.versions(db, window);
  return { versions: rows.map(shown), ...envelope };
}

async function list({ db }: Ctx, { group }: z.infer<typeof listed>) {
  const members = await fleet.fleet(db, group);
  const hashes = await hashesOf(db, members);
  return {
    gateways: members.map((member) => {
      const { group_name: _, is_draining, now: _now, ...row } = member;
      const is_supported = member.software_version === null || fitsWithApi(member.software_version);
      const expected_hash =
        member.software_version === API_VERSION && member.desired_version !== null
          ? hashes.get(member.desired_version)
          : undefined;
      return {
        ...row,
        ...numbersOf(member),
        state: is_draining ? 'draining' : 'running',
        drift: fleet.driftOf(member, { is_supported, expected_hash }),
        uptime_s: Math.floor((member.seen_at.getTime() - member.started_at.getTime()) / 1_000),
      };
    }),
  };
}

/** The hashes that gateways of this software make of the versions that they are to run. */
async function hashesOf(
  db: Ctx['db'],
  members: readonly fleet.FleetMember[],
): Promise<Map<number, string>> {
  const hashes = new Map<number, string>();
  for (const version of new Set(members.map(({ desired_version }) => desired_version))) {
    const config = version === null ? null : (await configs.find(db, version))?.config;
    const settings = config ? checkConfig(config).settings : undefined;
    if (version !== null && settings !== undefined) hashes.set(version, hashOf(settings));
  }
  return hashes;
}

function stateOf(state: fleet.GatewayState) {
  const { id, host, software_version, config_hash, error, started_at, seen_at } = state;
  const row = { id, host, software_version, config_hash, error, started_at, seen_at };
  return { ...row, ...numbersOf(state) };
}

function numbersOf({ config_version, refused_version }: fleet.GatewayState) {
  return {
    config_version: config_version === null ? null : Number(config_version),
    refused_version: refused_version === null ? null : Number(refused_version),
  };
}

function shown({ version, ...row }: configs.GatewayConfig) {
  return { version: Number(version), ...row };
}
