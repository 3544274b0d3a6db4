import { ApplicationFailure } from '@temporalio/common';
import pino from 'pino';
import { sdkLogInto } from '../../workers/sdk-log';

test('a failed workflow is logged with the words of its error and of its causes', () => {
  const lines: Record<string, unknown>[] = [];
  const write = sdkLogInto(pino({}, { write: (text: string) => lines.push(JSON.parse(text)) }));
  const cause = new Error('seq_without_gaps');
  const words = 'The ledger is broken in 2 places.';
  const error = new ApplicationFailure(words, 'ledger_broken', true, [], cause);
  write({
    level: 'WARN',
    message: 'Workflow failed',
    meta: { error, workflowId: 'audit' } as never,
  });
  write({ level: 'INFO', message: 'Worker state changed' });
  expect(lines).toMatchObject([{ msg: 'Workflow failed', workflowId: 'audit' }]);
  const text = JSON.stringify(lines[0]);
  expect(text).toContain(words);
  expect(text).toContain('seq_without_gaps');
});
