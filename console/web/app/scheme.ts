import type { MantineColorScheme, MantineColorSchemeManager } from '@mantine/core';
import { read, write } from '../base/storage';

const NAME = 'svc-colours';
const schemes: readonly MantineColorScheme[] = ['light', 'dark', 'auto'];

/** Keeps the chosen colours in this browser, if it keeps anything. */
export const schemeManager: MantineColorSchemeManager = {
  get: (by_default) => schemes.find((one) => one === read(NAME)) ?? by_default,
  set: (scheme) => write(NAME, scheme),
  subscribe: () => undefined,
  unsubscribe: () => undefined,
  clear: () => write(NAME, null),
};
