import { z } from 'zod';
import { drifts } from '../../domain/gateways/fleet';
import { rolloutStatuses } from '../../domain/gateways/rollouts';
import { id, time } from './shared';

const config = z.record(z.string(), z.unknown());

const changed = {
  config_hash: z
    .string()
    .nullable()
    .describe('Names it by its content, as gateways do; null where there is none.'),
  changes: z
    .array(
      z.strictObject({
        path: z.string(),
        before: z.unknown().optional(),
        after: z.unknown().optional(),
      }),
    )
    .nullable()
    .describe('What it changes of the version before, the first 200 places.'),
  change_count: z.int().nullable().describe('How many places differ.'),
};

const version = z.strictObject({
  version: z.int(),
  config: config.nullable().describe('Null where gateways run their own files.'),
  ...changed,
  is_staged: z.boolean().describe('True: gateways get it by rollouts only.'),
  note: z.string().nullable(),
  created_by: id,
  created_at: time,
});

export const gatewayConfigVersion = version;

const place = z.enum(['resource', 'region', 'project', 'location', 'api_version', 'endpoint']);

export const providerKinds = z.strictObject({
  kinds: z.array(
    z.strictObject({
      kind: z.string().describe('What a target says as its kind.'),
      needs: z.array(place).describe('What a target must say of its place.'),
      takes: z.array(place).describe('What it may say of it.'),
      auth: z
        .array(z.enum(['none', 'key', 'aws', 'google', 'entra']))
        .describe('The ways to prove who asks; one of them.'),
      wires: z
        .array(
          z.strictObject({
            shape: z
              .enum(['openai', 'anthropic', 'gemini', 'converse'])
              .describe('Whose wire it is.'),
            base_url: z
              .string()
              .nullable()
              .describe(
                'Its address, with {region} in the place of what a target says; null: each target says its own.',
              ),
            families: z
              .array(z.string())
              .nullable()
              .describe('The families of routes that it serves; null: all of its shape.'),
          }),
        )
        .describe('The wires that it speaks; the first is that of a target without shape.'),
    }),
  ),
});

export const polledConfig = version.pick({ version: true, config: true });

const window = z.strictObject({
  gateways: z.int(),
  finished: z.int(),
  own_5xx: z.int(),
  upstream_5xx: z.int(),
  refused: z.int(),
  lost_reports: z.int(),
});

export const rollout = z.strictObject({
  id,
  group: z.string(),
  version: z.int(),
  from_version: z
    .int()
    .nullable()
    .describe('To which moved gateways return; null: to their own files.'),
  stages: z.array(z.union([z.int(), z.string()])),
  soak_s: z.int(),
  max_wait_s: z.int(),
  apply_s: z.int(),
  max_error_ratio: z.number(),
  status: z.enum(rolloutStatuses),
  reason_code: z.string().nullable(),
  reason: z.string().nullable().describe('Why it is paused, or how it ended.'),
  stage: z.int().describe('Counts from 1; 0 before the first.'),
  is_promoted: z.boolean(),
  stage_began_at: time.nullable(),
  applied_at: time.nullable().describe('When all that were moved had taken it up.'),
  control: window
    .nullable()
    .describe('How the gateways that were not moved did in the last window.'),
  note: z.string().nullable(),
  created_by: id,
  created_at: time,
  ended_at: time.nullable(),
});

export const rolloutWithGateways = rollout.extend({
  gateways: z
    .array(z.strictObject({ gateway_id: id, host: z.string(), stage: z.int(), moved_at: time }))
    .describe('Those that were moved, first ones first.'),
});

/** The answer to a PUT: a version, or with `dry_run` what it would be; with `rollout` that too. */
export const putConfig = version.extend({
  version: z.int().nullable().describe('Null for a dry run, which makes none.'),
  created_by: id.nullable(),
  created_at: time.nullable(),
  rollout: rollout.nullable().describe('Null unless one was asked for.'),
});

const state = {
  id,
  host: z.string(),
  software_version: z.string().nullable(),
  config_version: z.int().nullable().describe('Null where it runs its own file.'),
  config_hash: z.string().describe('Names the running configuration by its content.'),
  refused_version: z.int().nullable(),
  error: z.string().nullable().describe('Why it refused that version.'),
  started_at: time,
  seen_at: time,
};

export const gatewayConfig = z.strictObject({
  version: z.int().nullable().describe('Null where gateways run their own files.'),
  config: config.nullable(),
  config_hash: changed.config_hash.optional(),
  changes: changed.changes.optional(),
  change_count: changed.change_count.optional(),
  is_staged: z.boolean().optional(),
  note: z.string().nullable().optional(),
  created_by: id.optional(),
  created_at: time.optional(),
  gateways: z.array(z.strictObject(state)),
});

export const gateways = z.strictObject({
  gateways: z.array(
    z.strictObject({
      ...state,
      group: z.string(),
      state: z.enum(['running', 'draining']),
      desired_version: z.int().nullable().describe('Null where it is to run its own file.'),
      desired_since: time,
      drift: z
        .enum(drifts)
        .describe(
          'rejected: see error; drifted: it runs something else; silent: for 60 s; unsupported: its software is of no version that fits.',
        ),
      uptime_s: z.int(),
      in_flight: z.int(),
      held: z.int().describe('Calls that wait for money.'),
      counts: window
        .omit({ gateways: true })
        .nullable()
        .describe('Of the calls that began with what it runs.'),
    }),
  ),
});
