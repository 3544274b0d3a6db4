import { Button, Text } from '@mantine/core';
import { useEffect } from 'react';
import { queries } from '../api/queries';
import { forgetTab } from '../base/storage';
import { Dialog } from '../parts/dialog';

type Told = 'begun' | 'signed-out';

const openChannel = () => new BroadcastChannel('svc-session');

/**
 * Tells the other tabs of this browser that a page was begun here, and looks anew who is signed in
 * when another tab says so: all of them have one session. If one signs out, all leave.
 */
export function useOtherTabs(): void {
  useEffect(() => {
    const channel = openChannel();
    channel.onmessage = ({ data }: MessageEvent<Told>) => {
      if (data === 'signed-out') leave();
      else void queries.invalidateQueries({ queryKey: ['/api/me'] });
    };
    channel.postMessage('begun' satisfies Told);
    return () => channel.close();
  }, []);
}

/** Leaves this tab and the other ones of this browser with nothing of who was signed in. */
export function leaveEverywhere(): void {
  const channel = openChannel();
  channel.postMessage('signed-out' satisfies Told);
  channel.close();
  leave();
}

function leave(): void {
  queries.clear();
  forgetTab();
  location.assign('/login');
}

/** Over a page that shows another person or organization than this browser is signed in to now. */
export function Elsewhere() {
  return (
    <Dialog
      opened
      onClose={() => undefined}
      is_closable={false}
      title="You have signed in elsewhere"
    >
      <Text mb="md">
        Another tab of this browser has signed in as somebody else, or gone to another organization.
        Nothing that stands here can be sent any more: reload to go on there.
      </Text>
      <Button onClick={() => location.reload()} data-autofocus>
        Reload
      </Button>
    </Dialog>
  );
}
