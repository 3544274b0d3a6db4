import { Alert, Button, Stack, Text } from '@mantine/core';
import { queryOptions, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { send } from '../api/client';
import { failureWords } from './failures';
import { goToProvider, wordsOf } from './sign-in-forms';

/** What the sign-in that was refused may name. */
interface Choices {
  issuer_id: string | null;
  organizations: { org_id: string; name: string }[];
  /** There are others, which have no room here. */
  has_more: boolean;
  next: string;
}

const choicesQuery = queryOptions({
  queryKey: ['/api/session/organizations'],
  queryFn: ({ signal }) =>
    send('GET', '/api/session/organizations', { signal }) as Promise<Choices>,
  staleTime: 0,
});

/** Whoever is a member of several organizations signs in to the one that they choose here. */
export function ChooseOrganization() {
  const { data, isPending } = useQuery(choicesQuery);
  const [problem, setProblem] = useState<string>();
  if (isPending) return null;
  const { issuer_id = null, organizations = [], has_more = false, next = '/' } = data ?? {};
  if (issuer_id === null || organizations.length === 0)
    return (
      <Alert color="red" role="alert" title="You are not signed in">
        {failureWords('org_required')}
      </Alert>
    );
  const choose = (org_id: string) =>
    goToProvider({ issuer_id, next, org_id }).catch((refusal) => setProblem(wordsOf(refusal)));
  return (
    <Stack gap="xs" role="group" aria-label="Your organizations">
      <Text>You are a member of several organizations. Which one do you sign in to?</Text>
      {organizations.map(({ org_id, name }) => (
        <Button key={org_id} variant="default" onClick={() => void choose(org_id)} fullWidth>
          {name}
        </Button>
      ))}
      {has_more && (
        <Text c="dimmed">
          You have more than fit here. For another, ask its admin for the address: /login?org= and
          its id.
        </Text>
      )}
      {problem && (
        <Alert color="red" role="alert">
          {problem}
        </Alert>
      )}
    </Stack>
  );
}
