import { Text, TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useEffect, useState } from 'react';
import { call } from '../api/client';
import { refresh } from '../api/queries';
import { FormModal } from '../parts/form-modal';
import { NAMES } from '../parts/names';
import { useLast } from '../parts/use-last';
import { DoomedKeys } from '../people/doomed-keys';
import { useMe } from '../session/me';
import { AGENTS, type Agent } from './words';

/** Makes an agent, or gives one another name. */
export function AgentName({
  opened,
  agent,
  onClose,
}: {
  opened: boolean;
  /** The agent that is renamed; undefined: a new one. */
  agent: Agent | undefined;
  onClose: () => void;
}) {
  const id = useMe().acting_org ?? '';
  const [last, setLast] = useState(agent);
  const [name, setName] = useState('');
  useEffect(() => {
    if (!opened) return;
    setLast(agent);
    setName(agent?.name ?? '');
  }, [opened, agent]);
  const submit = async (idempotency_key: string) => {
    const body = { name: name.trim() };
    if (agent === undefined)
      await call('POST /api/organizations/:id/agents', { names: { id }, body, idempotency_key });
    else
      await call('PATCH /api/organizations/:id/agents/:agent_id', {
        names: { id, agent_id: agent.id },
        body,
        idempotency_key,
      });
    void refresh(AGENTS, NAMES);
    onClose();
  };
  const shown = opened ? agent : last;
  return (
    <FormModal
      title={shown === undefined ? 'A new agent' : `Rename ${shown.name}`}
      opened={opened}
      onClose={onClose}
      submit={submit}
      label={shown === undefined ? 'Make the agent' : 'Rename'}
      is_ready={name.trim() !== '' && name.trim() !== agent?.name}
    >
      <TextInput
        label="Name"
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        maxLength={200}
        data-autofocus
        required
      />
    </FormModal>
  );
}

/** Archives an agent, after it was said which keys end. */
export function ArchiveAgent({
  agent,
  onClose,
}: {
  /** Undefined: the dialog is closed. */
  agent: Agent | undefined;
  onClose: () => void;
}) {
  const id = useMe().acting_org ?? '';
  const shown = useLast(agent);
  const submit = async () => {
    if (agent === undefined) return;
    await call('DELETE /api/organizations/:id/agents/:agent_id', {
      names: { id, agent_id: agent.id },
    });
    void refresh(AGENTS, '/api/keys');
    notifications.show({ message: `${agent.name} is archived.` });
    onClose();
  };
  return (
    <FormModal
      title={`Archive ${shown?.name ?? ''}`}
      opened={agent !== undefined}
      onClose={onClose}
      submit={submit}
      label="Archive"
      is_dangerous
    >
      <Text>
        Its caps go with it. What it has cost stays in spend. Calls under way finish. All keys of
        the agent end:
      </Text>
      {agent && <DoomedKeys of={{ agent_id: agent.id }} />}
    </FormModal>
  );
}
