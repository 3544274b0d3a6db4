import { Text } from '@mantine/core';
import { useEffect } from 'react';
import { send } from '../api/client';
import { queries } from '../api/queries';
import { act } from '../parts/act';
import { Dialog } from '../parts/dialog';
import type { Me } from '../session/me';
import { SignInForms } from '../session/sign-in-forms';

/**
 * Over the page whose session has ended: what was typed stays, and goes on after signing in, here
 * or in another tab. It is gone once somebody is signed in, and all that was refused is read anew.
 */
export function SignInAgain({ me }: { me: Me }) {
  useEffect(() => () => void queries.invalidateQueries(), []);
  const goOn = async () => {
    // An operator goes on in the organization that they looked at.
    if (me.is_operator && me.acting_org !== null)
      await act(() => send('PUT', '/api/session/org', { body: { org_id: me.acting_org } }));
    await queries.invalidateQueries({ queryKey: ['/api/me'] });
  };
  return (
    <Dialog opened onClose={() => undefined} is_closable={false} title="You are signed out">
      <Text mb="md">
        Your session has ended. Sign in, here by a key or in a new tab by your identity provider:
        what you have typed stays as it is.
      </Text>
      <SignInForms
        next="/"
        org_id={me.is_operator ? undefined : (me.acting_org ?? undefined)}
        is_over_page
        onDone={() => void goOn()}
      />
    </Dialog>
  );
}
