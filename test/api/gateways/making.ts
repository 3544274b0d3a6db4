import { randomUUID } from 'node:crypto';
import * as configs from '../../../domain/gateways/configs';
import * as fleet from '../../../domain/gateways/fleet';
import { act, create } from '../../../domain/gateways/rollout-changes';
import type { Db } from '../../../domain/sql';
import { API_VERSION } from '../../../runtime/version';

/** A configuration that every gateway could run, but for its environment. */
export function plainConfig(more: object = {}): Record<string, unknown> {
  const target = {
    id: 'a',
    provider: 'openai',
    shape: 'openai',
    base_url: 'https://models.example/v1',
    models: ['gpt-4o-mini'],
  };
  return { providers: { targets: [target] }, ...more };
}

/** Reports as a gateway does that runs its own file; its id. */
export async function reportGateway(db: Db, more: Partial<fleet.Report> = {}): Promise<string> {
  const id = more.id ?? randomUUID();
  await fleet.report(db, {
    host: 'host',
    software_version: API_VERSION,
    group_name: 'default',
    config_version: null,
    config_hash: 'of its file',
    refused_version: null,
    error: null,
    is_draining: false,
    in_flight: 0,
    held: 0,
    counts: null,
    started_at: new Date(),
    ...more,
    id,
  });
  return id;
}

/** A version that gateways get by rollouts only. */
export async function stagedVersion(db: Db): Promise<number> {
  const given = { config: plainConfig(), config_hash: null, note: null, by: 'test' };
  return Number((await configs.put(db, { ...given, is_staged: true })).version);
}

/** A rollout in a group of its own; its id. */
export function makeRollout(db: Db, is_paused = false): Promise<string> {
  return db.transaction(async (trx) => {
    const group = `group-${randomUUID()}`;
    await reportGateway(trx, { group_name: group });
    const rules = { max_wait_s: 600, apply_s: 30, max_error_ratio: 0.02, note: null, by: 'test' };
    const { id } = await create(trx, { version: await stagedVersion(trx), group, ...rules });
    if (is_paused) await act(trx, id, 'pause');
    return id;
  });
}
