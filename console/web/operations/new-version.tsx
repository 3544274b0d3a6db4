import { Alert, Button, Group, Switch, Text, Textarea, TextInput } from '@mantine/core';
import { useEffect, useState } from 'react';
import { type Answer, call, Refusal } from '../api/client';
import { refresh } from '../api/queries';
import { FormModal } from '../parts/form-modal';
import { Changes } from './changes';
import { configurationIn, configurationText } from './configuration-text';
import type { Version } from './words';

type Checked = Answer<'PUT /api/gateway-config'>;

/** Gives gateways another configuration: checked first, then to all at once or in stages. */
export function NewVersion({
  opened,
  current,
  onClose,
}: {
  opened: boolean;
  /** The version in force, with which the text begins; undefined: gateways run their own files. */
  current: Version | undefined;
  onClose: () => void;
}) {
  const [text, setText] = useState('');
  /** The version with which the text began. */
  const [begun, setBegun] = useState<number>();
  const [note, setNote] = useState('');
  const [is_staged, setStaged] = useState(true);
  const [answer, setAnswer] = useState<{
    to: string;
    beside: number | undefined;
    checked: Checked;
  }>();
  const [problem, setProblem] = useState<string>();
  // biome-ignore lint/correctness/useExhaustiveDependencies: what is typed stays while others write.
  useEffect(() => {
    if (!opened) return;
    setText(current?.config ? configurationText(current.config) : '');
    setBegun(current?.version);
    setNote('');
    setAnswer(undefined);
    setProblem(undefined);
  }, [opened]);
  const now = current?.version;
  // Of this text alone, and compared with the version that is in force.
  const is_checked = answer?.to === text && answer.beside === now;
  const checked = is_checked ? answer.checked : undefined;
  const { config, problem: mistake } = configurationIn(text);
  const check = async () => {
    if (config === undefined) return;
    setAnswer(undefined);
    setProblem(undefined);
    try {
      const body = { config, dry_run: true };
      setAnswer({
        to: text,
        beside: now,
        checked: await call('PUT /api/gateway-config', { body }),
      });
    } catch (refusal) {
      setProblem(problemWords(refusal));
    }
  };
  const submit = async (idempotency_key: string) => {
    if (config === undefined) return;
    const more = { ...(note ? { note } : {}), ...(is_staged ? { rollout: {} } : {}) };
    await call('PUT /api/gateway-config', { body: { config, ...more }, idempotency_key });
    void refresh('/api/gateway', '/api/config-rollouts');
    onClose();
  };
  return (
    <FormModal
      title="A new version"
      opened={opened}
      onClose={onClose}
      submit={submit}
      label={is_staged ? 'Begin a rollout' : 'Apply to all gateways'}
      is_dangerous={!is_staged}
      is_ready={checked !== undefined}
    >
      <Textarea
        label="Configuration"
        description={`YAML as in the gateway's file, or JSON. Keys of providers stay in variables. ${
          begun !== undefined
            ? `It begins with version ${begun}${now === begun ? ', which is in force' : ''}.`
            : 'Gateways run their own files, which only they can read: copy one here.'
        }`}
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        error={mistake}
        autosize
        minRows={8}
        maxRows={18}
        styles={{ input: { fontFamily: 'monospace' } }}
        spellCheck={false}
      />
      {now !== begun && (
        <Alert color="yellow" role="status">
          {now === undefined
            ? 'Meanwhile gateways were sent back to their own files.'
            : `Meanwhile version ${now} came into force: what it changed is not in this text.`}{' '}
          Check it again.
        </Alert>
      )}
      <Group>
        <Button variant="default" onClick={() => void check()} disabled={config === undefined}>
          Check it
        </Button>
      </Group>
      {problem && (
        <Alert color="red" role="alert" className="said">
          {problem}
        </Alert>
      )}
      {checked && <Changes changes={checked.changes} count={checked.change_count} />}
      <TextInput
        label="Note"
        value={note}
        onChange={(event) => setNote(event.currentTarget.value)}
        maxLength={1_000}
      />
      <Switch
        label="In stages: each is watched, and all return on a failure"
        checked={is_staged}
        onChange={(event) => setStaged(event.currentTarget.checked)}
      />
    </FormModal>
  );
}

/** Each path that no gateway could run, one a line. */
function problemWords(refusal: unknown): string {
  if (!(refusal instanceof Refusal)) return 'This is a fault of the console.';
  const { problems } = refusal.details as { problems?: { path?: string; message?: string }[] };
  if (!Array.isArray(problems)) return refusal.message;
  const lines = problems.map((one) =>
    typeof one === 'string' ? one : `${one.path ?? ''}: ${one.message ?? ''}`,
  );
  return [refusal.message, ...lines].join('\n');
}

/** Sends all gateways back to their own files. */
export function BackToFiles({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const submit = async (idempotency_key: string) => {
    await call('DELETE /api/gateway-config', { idempotency_key });
    void refresh('/api/gateway', '/api/config-rollouts');
    onClose();
  };
  return (
    <FormModal
      title="Back to their own files"
      opened={opened}
      onClose={onClose}
      submit={submit}
      label="Send them back"
      is_dangerous
    >
      <Text>
        All gateways run the file that they were started with, within a second. A rollout that goes
        on ends. The versions stay in the list, and can be rolled out again.
      </Text>
    </FormModal>
  );
}
