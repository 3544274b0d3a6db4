import { Alert, Button, Group, Select, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useEffect, useRef, useState } from 'react';
import { type Answer, call } from '../api/client';
import { intentAfter, isReused, newIntent } from '../api/intents';
import { reading, refresh } from '../api/queries';
import { roundedUp } from '../base/decimals';
import { typedNumber } from '../base/typed';
import { AmountInput } from '../fields/amount-input';
import { text, useFilters } from '../fields/filters';
import { TeamSelect } from '../fields/team-select';
import { AppLink } from '../parts/link';
import { inputDigits, Money, moneyText } from '../parts/money';
import { Page } from '../parts/page';
import { Empty, Failure, Loading } from '../parts/states';
import { markedCheckout, rememberCheckout } from '../payments/checkouts';
import { obstacle } from '../payments/obstacle';
import { firstAmount, leftWords } from '../payments/top-up';
import { type Me, may, useMe } from '../session/me';
import { wordsOf } from '../session/sign-in-forms';

type Settings = Answer<'GET /api/payments/options'>;

const shape = { amount: text, target: text, canceled: text };

/** A page that the browser kept shows soon what was paid since. */
const LOOK_MS = 5_000;

/** Buys balance: an amount, a wallet, and off to the payment provider. */
export function TopUp() {
  const me = useMe();
  const { data, error, refetch } = useQuery(reading('GET /api/payments/options'));
  const [{ canceled }] = useFilters(shape);
  if (error && data === undefined)
    return (
      <Page title="Top up">
        <Failure error={error} retry={() => void refetch()} />
      </Page>
    );
  if (data === undefined) return <Loading />;
  const why_not = obstacle(data, location.origin);
  return (
    <Page title="Top up" about="You pay at the payment provider and come back here.">
      {canceled && <LeftCheckout key={canceled} mark={canceled} />}
      <Balance me={me} />
      {why_not ? (
        <Empty title="Nobody can top up here yet">
          {why_not} <WhereElse me={me} settings={data} />
        </Empty>
      ) : (
        <Checkout settings={data} me={me} />
      )}
    </Page>
  );
}

/**
 * What became of a checkout that was left, once it was given up: who went back to the provider and
 * has paid after all must not be told that nothing was paid.
 */
function LeftCheckout({ mark }: { mark: string }) {
  const id = markedCheckout(mark);
  const [is_given_up, setGivenUp] = useState(false);
  useEffect(() => {
    void giveUp(mark).then(() => setGivenUp(true));
  }, [mark]);
  const { data } = useQuery({
    ...reading('GET /api/payments/sessions/:id', { names: { id: id ?? '' } }),
    enabled: is_given_up && id !== undefined,
    refetchInterval: LOOK_MS,
  });
  if (id === undefined)
    return (
      <Alert color="yellow">
        You have left a checkout that this browser does not know.{' '}
        <AppLink to="/payments">See whether it was paid</AppLink>
      </Alert>
    );
  if (data === undefined) return null;
  const { title, text } = leftWords(data);
  return (
    <Alert color="yellow" title={title} role="status">
      {text} <AppLink to={`/payments/${id}`}>See this payment</AppLink>
    </Alert>
  );
}

/** Ends the checkout that was left, so that nobody pays it later and it takes no place. */
export async function giveUp(mark: string): Promise<void> {
  const id = markedCheckout(mark);
  if (id === undefined) return;
  // One that is paid or over by now stays as it is: the server says which.
  await call('POST /api/payments/sessions/:id/cancel', { names: { id } }).catch(() => undefined);
  void refresh('/api/payments');
}

/** The screen on which the viewer mends what is in the way, if they may. */
function WhereElse({ me, settings }: { me: Me; settings: Settings }) {
  if (!settings.payment_provider_configured)
    return me.is_operator ? (
      <AppLink to="/payments" search={{ tab: 'providers' }}>
        Set up a provider
      </AppLink>
    ) : null;
  if (!settings.currency_supported_by_active_provider || !settings.may_top_up) return null;
  return may(me, 'org:billing') ? (
    <AppLink to="/settings" search={{ tab: 'top-ups' }}>
      Change the rules of top-ups
    </AppLink>
  ) : null;
}

function Balance({ me }: { me: Me }) {
  const { data } = useQuery(reading('GET /api/wallets/balance'));
  if (data === undefined) return null;
  const mine = me.user !== null && data.user_balance !== 0;
  return (
    <Text>
      The organization has <Money amount={data.org_balance} currency={data.currency} fw={700} />
      {mine && (
        <>
          , you have <Money amount={data.user_balance} currency={data.currency} fw={700} />
        </>
      )}
      .
    </Text>
  );
}

function Checkout({ settings, me }: { settings: Settings; me: Me }) {
  const [filters] = useFilters(shape);
  const { currency, min_topup_amount: min, max_topup_amount: max } = settings;
  const targets = targetsOf(settings, me);
  const asked = targets.find(({ value }) => value === filters.target);
  const is_other = filters.target !== undefined && asked === undefined;
  const [amount, setAmount] = useState<number | string>(() => {
    const offered = settings.allowed_topup_amounts;
    const limits = { min, max, offered, digits: inputDigits(currency) };
    // An amount that another wallet lacks is not asked for.
    return firstAmount(is_other ? undefined : filters.amount, limits);
  });
  const [target, setTarget] = useState((asked ?? targets[0])?.value ?? null);
  const [problem, setProblem] = useState<string>();
  const [is_busy, setBusy] = useState(false);
  const intent = useRef(newIntent());
  const [team_id, setTeam] = useState<string | null>(null);
  const owner = ownerOf(target, team_id);
  const typed = typedNumber(amount);
  const is_fit =
    typed !== undefined &&
    typed >= min &&
    typed <= max &&
    roundedUp(typed, inputDigits(currency)) === typed;
  const is_ready = is_fit && owner !== null;
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (!is_ready || is_busy || typed === undefined) return;
    setBusy(true);
    setProblem(undefined);
    try {
      location.assign(await begin(typed, owner ?? '', intent.current.key));
    } catch (refusal) {
      intent.current = isReused(refusal) ? newIntent() : intentAfter(intent.current, refusal);
      setProblem(
        isReused(refusal)
          ? 'The first try may have begun a checkout, of the amount that stood here then: it is under Payments. Press again to begin another one.'
          : wordsOf(refusal),
      );
      setBusy(false);
    }
  };
  return (
    <form onSubmit={(event) => void submit(event)}>
      <Stack maw={420}>
        <Group gap="xs" role="group" aria-label="Amounts">
          {settings.allowed_topup_amounts.map((one) => (
            <Button
              key={one}
              variant={typed === one ? 'filled' : 'default'}
              aria-pressed={typed === one}
              onClick={() => setAmount(one)}
            >
              {moneyText(one, currency)}
            </Button>
          ))}
        </Group>
        <AmountInput
          label={`Amount in ${currency}`}
          description={`From ${moneyText(min, currency)} to ${moneyText(max, currency)}`}
          currency={currency}
          value={amount}
          onChange={setAmount}
          digits={inputDigits(currency)}
          error={typed !== undefined && !is_fit ? 'This is outside what is allowed.' : undefined}
        />
        {targets.length === 0 ? (
          <Alert color="yellow" title="No wallet here is yours to top up">
            {settings.topup_target_scopes.includes('team')
              ? 'Wallets of teams may be topped up, and you are in no team. Ask an admin to take you into one, or a billing admin to top up.'
              : 'Only people top up here, each their own wallet.'}
          </Alert>
        ) : (
          <Select
            label="Into the wallet of"
            data={targets}
            value={target}
            onChange={setTarget}
            allowDeselect={false}
          />
        )}
        {target === ANY_TEAM && (
          <TeamSelect
            label="Which team"
            placeholder="Search by name"
            none="No team"
            value={team_id}
            onChange={setTeam}
          />
        )}
        {problem && (
          <Alert color="red" role="alert">
            {problem}
          </Alert>
        )}
        <Button type="submit" loading={is_busy} disabled={!is_ready}>
          {typed === undefined ? 'Pay' : `Pay ${moneyText(typed, currency)}`}
        </Button>
      </Stack>
    </form>
  );
}

/** Makes the checkout; resolves with the provider's page. */
async function begin(amount: number, target: string, idempotency_key: string): Promise<string> {
  const [owner_type = 'organization', owner_id] = target.split(' ');
  const body = {
    amount,
    target_wallet_owner_type: owner_type as 'team',
    ...(owner_id ? { target_wallet_owner_id: owner_id } : {}),
    surface: 'console' as const,
    return_url: `${location.origin}/top-up/return`,
    // The key is the same at each try, as the body has to be.
    cancel_url: `${location.origin}/top-up?canceled=${idempotency_key}`,
  };
  const made = await call('POST /api/payments/create-checkout', { body, idempotency_key });
  rememberCheckout(made, idempotency_key);
  return made.approval_url;
}

function targetsOf({ topup_target_scopes: scopes }: Settings, me: Me) {
  const here = me.memberships.find(({ org_id }) => org_id === me.org_id);
  const all: { value: string; label: string }[] = [];
  if (scopes.includes('organization'))
    all.push({ value: 'organization', label: here?.name ?? 'the organization' });
  if (scopes.includes('team'))
    for (const { team_id, name } of here?.teams ?? [])
      all.push({ value: `team ${team_id}`, label: `the team ${name}` });
  if (scopes.includes('user') && me.user !== null) all.push({ value: 'user', label: 'yourself' });
  // Who bills may name each team.
  if (scopes.includes('team') && may(me, 'org:billing'))
    all.push({ value: ANY_TEAM, label: 'a team' });
  return all;
}

const ANY_TEAM = 'team';

/** The wallet that is chosen; null while no team is. */
function ownerOf(target: string | null, team_id: string | null): string | null {
  if (target !== ANY_TEAM) return target;
  return team_id === null ? null : `team ${team_id}`;
}
