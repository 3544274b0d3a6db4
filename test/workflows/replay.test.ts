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

test('a history in which the workflow did something else is refused', async () => {
  const history = await storedHistory('reservation-lifetimes-expires-and-ends');
  const text = JSON.stringify(history).replaceAll('"expireHolds"', '"somethingElse"');
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
