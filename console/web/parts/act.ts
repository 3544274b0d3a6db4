import { notifications } from '@mantine/notifications';
import { refusedText } from '../api/intents';

/** Does what a button without a dialog does; a refusal is shown in the server's words. */
export async function act(work: () => Promise<unknown>): Promise<void> {
  try {
    await work();
  } catch (error) {
    notifications.show({ color: 'red', title: 'That did not work', message: refusedText(error) });
  }
}
