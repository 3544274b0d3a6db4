import { notifications } from '@mantine/notifications';
import type { MouseEvent } from 'react';
import { fileOf } from '../api/client';
import { act } from './act';

/** Keeps what was read as a file of this name. */
export function saveFile(name: string, data: Blob): void {
  const url = URL.createObjectURL(data);
  press(url, name);
  URL.revokeObjectURL(url);
}

/**
 * What a link to a file of the server does when it is pressed. The page reads the file itself: it
 * says what it shows, and a refusal is told there and takes nobody out of the console.
 */
export function keepFile(
  event: MouseEvent<HTMLAnchorElement>,
  /** What a file that is not whole leaves out. */
  left_out: string,
): void {
  const { href } = event.currentTarget;
  if (!isPlain(event)) return;
  event.preventDefault();
  void act(async () => {
    const { name, data, is_truncated } = await fileOf(href);
    saveFile(name, data);
    if (is_truncated)
      notifications.show({ title: `${name} is not whole`, message: left_out, autoClose: false });
  });
}

/**
 * The same for a file that may be too large to be read here: `look` throws a refusal, before the
 * browser keeps it by itself.
 */
export function keepLarge(event: MouseEvent<HTMLAnchorElement>, look: () => Promise<unknown>) {
  const { href } = event.currentTarget;
  if (!isPlain(event)) return;
  event.preventDefault();
  void act(async () => {
    await look();
    press(href, '');
  });
}

/** True unless the browser is asked for another tab or window. */
function isPlain(event: MouseEvent): boolean {
  return event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
}

/** Marked as a download, so that a page that comes in its place stays outside of this tab. */
function press(href: string, name: string): void {
  const link = document.createElement('a');
  link.href = href;
  link.download = name;
  link.click();
}
