import { Text } from '@mantine/core';
import { send } from '../api/client';
import { queries } from '../api/queries';
import { act } from '../parts/act';
import { Dialog } from '../parts/dialog';
import type { Me } from '../session/me';
import { SignInForms } from '../session/sign-in-forms';

/**
 * Over the page whose session has ended: what was typed stays, and goes on after signing in. The
 * identity provider is another page, so that way begins the page anew.
 */
export function SignInAgain({ me }: { me: Me }) {
  const goOn = async () => {
    // An operator goes on in the organization that they looked at.
    if (me.is_operator && me.acting_org !== null)
      await act(() => send('PUT', '/api/session/org', { body: { org_id: me.acting_org } }));
    await queries.invalidateQueries();
  };
  return (
    <Dialog opened onClose={() => undefined} is_closable={false} title="You are signed out">
      <Text mb="md">
        Your session has ended. Sign in with a key and what you have typed stays as it is.
      </Text>
      <SignInForms next={`${location.pathname}${location.search}`} onDone={() => void goOn()} />
    </Dialog>
  );
}
