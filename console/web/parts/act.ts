import { notifications } from '@mantine/notifications';
import { Refusal } from '../api/client';

/** Does what a button without a dialog does; a refusal is shown in the server's words. */
export async function act(work: () => Promise<unknown>): Promise<void> {
  try {
    await work();
  } catch (error) {
    const message = error instanceof Refusal ? error.message : 'This is a fault of the console.';
    notifications.show({ color: 'red', title: 'That did not work', message });
  }
}
