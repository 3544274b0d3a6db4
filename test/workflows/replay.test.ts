import { readdirSync } from 'node:fs';
import path from 'node:path';
import { root } from '../../runtime/root';
import { bundleWorkflows } from '../../workers/bundle';
import { replay, storedHistory } from '../support/history';

const names = readdirSync(path.join(root, 'test/histories')).map((file) =>
  file.replace('.json', ''),
);

test.each(names)('the stored history %s replays on the workflows of today', async (name) => {
  expect(await replay(await storedHistory(name), name)).toBeUndefined();
});

test.each([
  ['reservation-lifetimes-expires-and-ends', 'expireHolds'],
  ['config-rollout-completed', 'stepRollout'],
  ['export-job-canceled-in-temporal', 'failExport'],
  ['export-job-failed-and-not-cleared', 'clearExport'],
  ['export-upkeep-two-pages-and-a-schedule', 'runExportSchedules'],
])('a history in which %s did something else than %s is refused', async (name, activity) => {
  const history = await storedHistory(name);
  const text = JSON.stringify(history).replaceAll(`"${activity}"`, '"somethingElse"');
  expect(text).not.toBe(JSON.stringify(history));
  expect(await replay(JSON.parse(text), 'wrong')).toMatchObject({
    name: 'DeterminismViolationError',
  });
});

test('no domain or activity code is bundled with the workflows', async () => {
  const code = await bundleWorkflows();
  // This is how the bundle names a file of the project.
  expect(code).toMatch(/\.\/workflows\/cost-ticket\.ts/);
  expect(code).not.toMatch(/\.\/(domain|activities)\/[a-z-]+\.ts/);
});
