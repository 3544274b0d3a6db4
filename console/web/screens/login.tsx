import { Alert, Button, Center, Paper, Stack, Text, Title } from '@mantine/core';
import { useDocumentTitle } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { isUnfit, send, showNext } from '../api/client';
import { queries } from '../api/queries';
import { text, useFilters } from '../fields/filters';
import { UpgradeFirst } from '../parts/upgrade-first';
import { issuersQuery, SignInForms, wordsOf } from '../session/sign-in-forms';

const shape = { next: text, org: text, failed: text };

/**
 * Signing in. A one-time link carries its code behind the #, which is sent to no server by itself:
 * looking at the page spends nothing, pressing its button does.
 */
export function Login() {
  useDocumentTitle('Sign in · Console');
  const [{ next = '/', org, failed }] = useFilters(shape);
  const [code] = useState(() => new URLSearchParams(location.hash.slice(1)).get('code'));
  const navigate = useNavigate();
  const { error } = useQuery(issuersQuery(''));
  const go = () => {
    queries.clear();
    showNext(undefined);
    const page = /^\/(?![/\\])/.test(next) ? next : '/';
    void navigate({ href: page, replace: true });
  };
  if (isUnfit(error)) return <UpgradeFirst refusal={error} />;
  return (
    <Center mih="100vh" p="md" component="main">
      <Paper withBorder p="lg" w={400} maw="100%">
        <Stack>
          <div>
            <Title order={1} size="h2">
              Sign in
            </Title>
            <Text c="dimmed">Budgets, tickets and spend of your AI calls.</Text>
          </div>
          {failed && (
            <Alert color="red" role="alert" title="You are not signed in">
              {failures[failed] ?? 'The sign-in did not work. Begin it again, or ask an admin.'}
            </Alert>
          )}
          {code ? (
            <OneTime code={code} onDone={go} />
          ) : (
            <SignInForms next={next} org_id={org} onDone={go} />
          )}
        </Stack>
      </Paper>
    </Center>
  );
}

/** Why a sign-in at an identity provider did not work, by the code that the server sends. */
const failures: Readonly<Record<string, string>> = {
  other_browser: 'This sign-in was begun in another browser, or too long ago. Begin it again.',
  other_provider: 'Another identity provider answered than the one that was asked. Begin again.',
  provider_refused: 'The identity provider did not sign you in.',
  permission_denied: 'Nobody has let this account in. Ask an admin for an invitation.',
  rate_limit_exceeded: 'Too many sign-ins came from here. Wait a minute.',
  unavailable: 'The API cannot be reached at present. Try again in a moment.',
};

function OneTime({ code, onDone }: { code: string; onDone: () => void }) {
  const [is_busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string>();
  const signIn = async () => {
    setBusy(true);
    try {
      await send('POST', '/api/session', { body: { one_time_code: code } });
      onDone();
    } catch (refusal) {
      setProblem(wordsOf(refusal));
      setBusy(false);
    }
  };
  if (problem)
    return (
      <>
        <Alert color="red" role="alert" title="This link does not work any more">
          {problem}
        </Alert>
        <SignInForms next="/" onDone={onDone} />
      </>
    );
  return (
    <>
      <Text>This link signs you in once.</Text>
      <Button onClick={() => void signIn()} loading={is_busy} autoFocus>
        Sign in
      </Button>
    </>
  );
}
