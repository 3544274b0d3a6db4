import { Alert, Button, Group, Switch, Textarea, TextInput } from '@mantine/core';
import { useEffect, useState } from 'react';
import { type Answer, call, Refusal } from '../api/client';
import { refresh } from '../api/queries';
import { FormModal } from '../parts/form-modal';
import { Changes } from './changes';

type Checked = Answer<'PUT /api/gateway-config'>;

/** Gives gateways another configuration: checked first, then to all at once or in stages. */
export function NewVersion({
  opened,
  current,
  onClose,
}: {
  opened: boolean;
  current: Record<string, unknown> | null;
  onClose: () => void;
}) {
  const [text, setText] = useState('');
  const [note, setNote] = useState('');
  const [is_staged, setStaged] = useState(true);
  const [checked, setChecked] = useState<Checked>();
  const [problem, setProblem] = useState<string>();
  // biome-ignore lint/correctness/useExhaustiveDependencies: what is typed stays while others write.
  useEffect(() => {
    if (!opened) return;
    setText(current === null ? '' : JSON.stringify(current, null, 2));
    setNote('');
    setChecked(undefined);
    setProblem(undefined);
  }, [opened]);
  const config = parsed(text);
  const check = async () => {
    if (config === undefined) return;
    setChecked(undefined);
    setProblem(undefined);
    try {
      setChecked(await call('PUT /api/gateway-config', { body: { config, dry_run: true } }));
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
      label={is_staged ? 'Begin a rollout' : 'Give it to all gateways'}
      is_dangerous={!is_staged}
      is_ready={checked !== undefined}
    >
      <Textarea
        label="Configuration"
        description="JSON of the gateway's file. Keys of providers stay in variables."
        value={text}
        onChange={(event) => {
          setText(event.currentTarget.value);
          setChecked(undefined);
        }}
        error={text !== '' && config === undefined ? 'This is no JSON object.' : undefined}
        autosize
        minRows={8}
        maxRows={18}
        styles={{ input: { fontFamily: 'monospace' } }}
        spellCheck={false}
      />
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

function parsed(text: string): Record<string, unknown> | undefined {
  try {
    const found = JSON.parse(text);
    if (typeof found === 'object' && found !== null && !Array.isArray(found)) return found;
  } catch {
    // It is none yet.
  }
  return undefined;
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
