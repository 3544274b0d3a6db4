import { Select, TagsInput, TextInput } from '@mantine/core';
import { useEffect, useState } from 'react';
import { call } from '../api/client';
import { refresh } from '../api/queries';
import { typedNumber } from '../base/typed';
import { AmountInput } from '../fields/amount-input';
import { type Found, MemberSelect } from '../fields/member-select';
import { TeamSelect } from '../fields/team-select';
import { type Window, WindowSelect, windowOf } from '../fields/window-select';
import { FormModal } from '../parts/form-modal';
import { type Me, may, useCurrency, useMe } from '../session/me';
import { emptyBudget, emptyModels } from './empty-words';
import { expiryOf, livesWithin, useOwnKeyRules } from './lives';
import type { NewKey } from './shown-once';

/** In days. */
const USUAL_LIFE = '90';

type For = 'organization' | 'myself' | 'member';

const team = { label: 'Team', description: 'Its wallet pays, and its admins decide.' } as const;

/** Makes a gateway key: for yourself, or for the organization if you may. */
export function CreateDialog({
  opened,
  agent,
  onClose,
  onMade,
}: {
  opened: boolean;
  /** The agent whose calls it makes; undefined: of none, or of the one that each call names. */
  agent?: Found | undefined;
  onClose: () => void;
  onMade: (made: NewKey) => void;
}) {
  const me = useMe();
  const is_manager = may(me, 'tokens:write');
  const [name, setName] = useState('');
  const [chosen_team, setTeam] = useState<string | null>();
  const [models, setModels] = useState<string[]>([]);
  const [budget, setBudget] = useState<number | string>('');
  const [chosen, setWindow] = useState<Window>();
  const [chosen_life, setLife] = useState(USUAL_LIFE);
  const [whose, setWhose] = useState<For>('organization');
  const [member, setMember] = useState<Found | null>(null);
  useEffect(() => {
    if (!opened) return;
    setName('');
    setTeam(undefined);
    setModels([]);
    setBudget('');
    setWindow(undefined);
    setLife(USUAL_LIFE);
    setWhose('organization');
    setMember(null);
  }, [opened]);
  // A key that names no window has the organization's.
  const rules = useOwnKeyRules(opened && !is_manager);
  const currency = useCurrency();
  const lives = livesWithin(rules?.max_days ?? null);
  const life = lives.some(({ value }) => value === chosen_life) ? chosen_life : '';
  const window = chosen ?? windowOf(rules?.budget_window);
  const usual_team = is_manager ? null : onlyTeam(me);
  const team_id = chosen_team === undefined ? usual_team : chosen_team;
  const typed = typedNumber(budget);
  const is_whose = whose !== 'member' || member !== null;
  const submit = async () => {
    const body = {
      name: name.trim(),
      team_id,
      allowed_models: models.length > 0 ? models : null,
      max_budget: typed ?? null,
      ...(chosen === undefined ? {} : { budget_window: chosen }),
      expires_at: expiryOf(life),
    };
    const agent_id = agent?.id ?? null;
    const of = { myself: me.user?.user_id, member: member?.id, organization: undefined }[whose];
    const user_id = of ?? null;
    const made = is_manager
      ? await call('POST /api/keys', {
          body: { ...body, user_id, agent_id, token_type: 'gateway' },
        })
      : await call('POST /api/my-keys', { body });
    void refresh('/api/keys', '/api/my-keys');
    onClose();
    const { key, allowed_models } = made;
    onMade({ name: made.name, key, is_gateway: true, allowed_models });
  };
  return (
    <FormModal
      title={agent ? `A new key of ${agent.name}` : 'A new key for the gateway'}
      opened={opened}
      onClose={onClose}
      submit={submit}
      label="Create key"
      is_ready={is_whose && name.trim() !== '' && (budget === '' || typed !== undefined)}
      fields={['budget_window']}
    >
      {(refusedAt) => (
        <>
          <TextInput
            label="Name"
            description="What it is for; it stands in spend and tickets."
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            maxLength={200}
            data-autofocus
            required
          />
          {is_manager && (
            <Select
              label="For"
              description="Whose wallet pays first, and whose spend it is."
              data={[
                { value: 'organization', label: 'the organization' },
                ...(me.user === null ? [] : [{ value: 'myself', label: 'myself' }]),
                { value: 'member', label: 'a member' },
              ]}
              value={whose}
              onChange={(value) => setWhose((value ?? 'organization') as For)}
              allowDeselect={false}
            />
          )}
          {whose === 'member' && (
            <MemberSelect label="Which member" value={member} onChange={setMember} />
          )}
          <WhichTeam is_manager={is_manager} value={team_id} onChange={setTeam} />
          <TagsInput
            label="Models"
            description={`${emptyModels(rules)} A star may end a name: gpt-4o*`}
            value={models}
            onChange={setModels}
          />
          <AmountInput
            label={`Budget in ${currency}`}
            currency={currency}
            description={emptyBudget(rules, { window, currency })}
            value={budget}
            onChange={setBudget}
          />
          <WindowSelect value={window} onChange={setWindow} error={refusedAt('budget_window')} />
          <Select
            label="Expires"
            data={lives}
            value={life}
            onChange={(value) => setLife(value ?? USUAL_LIFE)}
            allowDeselect={false}
          />
        </>
      )}
    </FormModal>
  );
}

/** Any team of the organization for who manages keys, else one of one's own. */
function WhichTeam({
  is_manager,
  value,
  onChange,
}: {
  is_manager: boolean;
  value: string | null;
  onChange: (team_id: string | null) => void;
}) {
  const me = useMe();
  if (is_manager) return <TeamSelect {...team} none="No team" value={value} onChange={onChange} />;
  return (
    <Select
      {...team}
      data={ownTeams(me).map(({ team_id, name }) => ({ value: team_id, label: name }))}
      value={value}
      onChange={onChange}
      clearable
      clearButtonProps={{ 'aria-label': 'No team' }}
      searchable
    />
  );
}

function ownTeams(me: Me) {
  return me.memberships.find(({ org_id }) => org_id === me.org_id)?.teams ?? [];
}

/** The team of who is in one alone: whose money their calls are to take, and who decides. */
function onlyTeam(me: Me): string | null {
  const [team, ...others] = ownTeams(me);
  return team && others.length === 0 ? team.team_id : null;
}
