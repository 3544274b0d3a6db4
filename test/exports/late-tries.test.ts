import { mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { createExportSteps } from '../../activities/exports';
import * as exports from '../../domain/exports/exports';
import * as steps from '../../domain/exports/steps';
import { createTargetOf, type TargetOf } from '../../exports/open';
import { makeTenant, secrets, type Tenant } from '../support/api';
import { type ExportWorld, filesBelow, lastHour, openExportWorld } from './world';

// A worker that was slow to hear of it publishes a file after its export has ended elsewhere.

let world: ExportWorld;
let tenant: Tenant;

beforeAll(async () => {
  world = await openExportWorld();
});

beforeEach(async () => {
  tenant = await makeTenant(world.db);
});

afterAll(() => world.close());

const life = (attempt = 'first') => ({
  attempt,
  requireLife: () => undefined,
  signal: AbortSignal.timeout(60_000),
});

async function ask(): Promise<string> {
  const body = {
    kinds: ['statement'],
    ...(await lastHour()),
  };
  const answer = await world.call('post', '/v1/exports', { key: tenant.owner_key, body });
  expect(answer.status).toBe(201);
  return answer.body.id;
}

/**
 * A store whose drafts lie elsewhere, as those of buckets do: before a file gets its name something
 * else happens.
 */
function folderWith(before: () => Promise<void>): TargetOf {
  const targetOf = createTargetOf(world.db, { dir: world.dir, origins: [], secrets });
  return async (place) => {
    const target = await targetOf(place);
    return {
      ...target,
      publish: async (draft, ...given) => {
        const bytes = await readFile(draft);
        await before();
        await mkdir(path.dirname(draft), { recursive: true });
        await writeFile(draft, bytes);
        await target.publish(draft, ...given);
      },
    };
  };
}

const filesOf = async (id: string) =>
  (await filesBelow(world.dir)).filter((name) => name.includes(id));

test.each(['a file', 'the manifest'])(
  '%s that is published after the files of a canceled export were deleted is deleted too',
  async (which) => {
    const { db } = world;
    const id = await ask();
    const plain = createExportSteps(
      db,
      createTargetOf(db, { dir: world.dir, origins: [], secrets }),
    );
    const late = createExportSteps(
      db,
      folderWith(async () => {
        await exports.cancel(db, id, tenant.org_id);
        await plain.clearExport({ export_id: id }, life());
      }),
    );
    if (which === 'a file') await late.writeExportPart({ export_id: id, n: 1 }, life('late'));
    else {
      await plain.writeExportPart({ export_id: id, n: 1 }, life());
      expect(await filesOf(id)).toHaveLength(1);
      await late.finishExport({ export_id: id }, life('late'));
    }
    expect(await filesOf(id)).toEqual([]);
    const [row] = await db('exports').where({ id });
    expect([row.status, row.cleared_at]).toEqual(['canceled', expect.any(Date)]);
  },
);

test('a late try deletes nothing of an export that another one has completed', async () => {
  const { db } = world;
  const id = await ask();
  const plain = createExportSteps(db, createTargetOf(db, { dir: world.dir, origins: [], secrets }));
  const late = createExportSteps(
    db,
    folderWith(async () => {
      for (const n of await steps.unwritten(db, id))
        await plain.writeExportPart({ export_id: id, n }, life());
      await plain.finishExport({ export_id: id }, life());
    }),
  );
  await late.writeExportPart({ export_id: id, n: 1 }, life('late'));
  const [row] = await db('exports').where({ id });
  expect([row.status, row.cleared_at]).toEqual(['completed', null]);
  expect(await filesOf(id)).toHaveLength(2);
});
