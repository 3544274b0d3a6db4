import { Alert, Button, Divider, PasswordInput, Stack, Text, TextInput } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { keepPreviousData, queryOptions, useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { queryText, Refusal, send } from '../api/client';

interface Issuers {
  issuers: { id: string; name: string }[];
  /** There are others, which are found by words. */
  has_more: boolean;
}

/** More than this are searched, not looked through. */
const SHOWN_MAX = 10;

/** The identity providers that somebody may sign in by; of many, those with these words. */
export function issuersQuery(q: string) {
  const path =
    q === '' ? '/api/session/issuers' : `/api/session/issuers?q=${encodeURIComponent(q)}`;
  return queryOptions({
    queryKey: [path],
    queryFn: ({ signal }) => send('GET', path, { signal }) as Promise<Issuers>,
    staleTime: 300_000,
  });
}

/**
 * The ways to sign in: an identity provider, or an access key. Whoever brings an invitation, or
 * enters one as a key, signs in by an identity provider, which it binds to a member.
 */
export function SignInForms({
  next,
  org_id,
  invitation: brought,
  is_over_page = false,
  onDone,
}: {
  /** The page to go on with after an identity provider. */
  next: string;
  org_id?: string | undefined;
  invitation?: string | undefined;
  /** True over a page that is to stay as it is: identity providers are gone to in another tab. */
  is_over_page?: boolean;
  onDone: () => void;
}) {
  const [invitation, setInvitation] = useState(brought);
  const [words, setWords] = useState('');
  const [q] = useDebouncedValue(words.trim(), 300);
  const { data, error } = useQuery({ ...issuersQuery(q), placeholderData: keepPreviousData });
  const [problem, setProblem] = useState<string>();
  const begin = async (issuer_id: string) => {
    setProblem(undefined);
    try {
      await goToProvider({ issuer_id, next, ...(org_id ? { org_id } : {}), invitation });
    } catch (refusal) {
      setProblem(wordsOf(refusal));
    }
  };
  const issuers = data?.issuers ?? [];
  const is_long = data?.has_more === true || issuers.length > SHOWN_MAX;
  const is_search = !is_over_page && (is_long || q !== '' || words !== '');
  return (
    <Stack>
      {invitation && (
        <Alert title="You are invited">
          Sign in by your identity provider: your account there becomes the member whom this
          invitation is for.
        </Alert>
      )}
      {is_search && (
        <TextInput
          label="Find your organization"
          value={words}
          maxLength={200}
          onChange={(event) => setWords(event.currentTarget.value)}
        />
      )}
      {is_search && issuers.length === 0 && (
        <Text c="dimmed">Nothing is found by these words.</Text>
      )}
      {is_over_page && issuers.length > 0 && <NewTab {...{ org_id, invitation }} />}
      {!is_over_page &&
        issuers.slice(0, SHOWN_MAX).map(({ id, name }) => (
          <Button key={id} onClick={() => void begin(id)} fullWidth>
            Sign in with {name}
          </Button>
        ))}
      {invitation && data && !is_search && issuers.length === 0 && (
        <Alert color="yellow" role="alert">
          No identity provider signs people in here, so nobody can use an invitation. Ask whoever
          sent it for an access key.
        </Alert>
      )}
      {(is_search || issuers.length > 0) && <Divider label="or" />}
      {invitation ? (
        <Button variant="default" onClick={() => setInvitation(undefined)}>
          Sign in without the invitation
        </Button>
      ) : (
        <KeyForm
          onDone={onDone}
          onInvitation={setInvitation}
          is_first={!is_search && issuers.length === 0}
        />
      )}
      {(problem || error) && (
        <Alert color="red" role="alert">
          {problem ?? wordsOf(error)}
        </Alert>
      )}
    </Stack>
  );
}

/** Goes to an identity provider, which comes back to `next`. Throws a Refusal. */
export async function goToProvider(body: {
  issuer_id: string;
  next: string;
  org_id?: string;
  invitation?: string | undefined;
}): Promise<void> {
  const { url } = (await send('POST', '/api/session/oidc', { body })) as { url: string };
  location.assign(url);
}

/** The way by an identity provider from a page that is to stay: its tab says when it is done. */
function NewTab({
  org_id,
  invitation,
}: {
  org_id: string | undefined;
  invitation: string | undefined;
}) {
  const search = queryText({ next: '/', org: org_id });
  const hash = invitation === undefined ? '' : `#invitation=${invitation}`;
  return (
    <Button component="a" href={`/login${search}${hash}`} target="_blank" rel="noopener" fullWidth>
      Sign in by your identity provider, in a new tab
    </Button>
  );
}

function KeyForm({
  onDone,
  onInvitation,
  is_first,
}: {
  onDone: () => void;
  onInvitation: (code: string) => void;
  is_first: boolean;
}) {
  const [key, setKey] = useState('');
  const [is_busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string>();
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setProblem(undefined);
    // A link is taken for what it carries.
    const given = /#(?:code|invitation)=(\S+)$/.exec(key.trim())?.[1] ?? key.trim();
    const body = given.startsWith('svc_otc_') ? { one_time_code: given } : { access_key: given };
    try {
      await send('POST', '/api/session', { body });
      onDone();
    } catch (refusal) {
      // Only the API knows which codes are invitations.
      if (refusal instanceof Refusal && refusal.param === 'invitation') return onInvitation(given);
      setProblem(wordsOf(refusal));
    } finally {
      setBusy(false);
    }
  };
  return (
    <form onSubmit={(event) => void submit(event)}>
      <Stack gap="xs">
        <PasswordInput
          label="Access key or one-time code"
          description="It is exchanged for a 12-hour session and not stored."
          autoComplete="off"
          value={key}
          onChange={(event) => setKey(event.currentTarget.value)}
          error={problem}
          visibilityToggleButtonProps={{ 'aria-label': 'Show or hide the key' }}
          required
        />
        <Button
          type="submit"
          variant={is_first ? 'filled' : 'default'}
          loading={is_busy}
          disabled={key.trim() === ''}
        >
          Sign in
        </Button>
        <Text size="sm" c="dimmed">
          An admin gives you a key, or invites you. A one-time code is printed by npm run admin --
          sign-in.
        </Text>
      </Stack>
    </form>
  );
}

/** A refusal in words. */
export function wordsOf(refusal: unknown): string {
  return refusal instanceof Refusal ? refusal.message : 'This is a fault of the console.';
}
