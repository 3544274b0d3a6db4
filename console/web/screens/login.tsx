import { Alert, Button, Center, Paper, Stack, Text, Title } from '@mantine/core';
import { useDocumentTitle, useHash } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { isUnfit, send, showNext } from '../api/client';
import { queries } from '../api/queries';
import { text, useFilters } from '../fields/filters';
import { UpgradeFirst } from '../parts/upgrade-first';
import { ChooseOrganization } from '../session/choose-organization';
import { failureWords } from '../session/failures';
import { issuersQuery, SignInForms, wordsOf } from '../session/sign-in-forms';
import { Unended } from '../session/unended';

const shape = { next: text, org: text, failed: text, param: text, invited: text };

/**
 * Signing in. A one-time link and that of an invitation carry their code behind the #, which is
 * sent to no server by itself: looking at the page spends nothing, pressing its button does.
 */
export function Login() {
  useDocumentTitle('Sign in · Console');
  const [{ next = '/', org, failed, param, invited }] = useFilters(shape);
  const [hash] = useHash({ getInitialValueInEffect: false });
  const brought = new URLSearchParams(hash.slice(1));
  const [code, invitation] = [brought.get('code'), brought.get('invitation')];
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
          <Unended />
          {failed === 'org_required' && <ChooseOrganization />}
          {failed && failed !== 'org_required' && (
            <Alert color="red" role="alert" title="You are not signed in">
              {failureWords(failed, param)}
              {invited && ' To use your invitation, open its link again.'}
            </Alert>
          )}
          {code ? (
            <OneTime key={code} code={code} onDone={go} />
          ) : (
            <SignInForms
              key={invitation}
              next={next}
              org_id={org}
              invitation={invitation ?? undefined}
              onDone={go}
            />
          )}
        </Stack>
      </Paper>
    </Center>
  );
}

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
