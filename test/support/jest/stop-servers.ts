import type { Servers } from '../servers';

export = async (): Promise<void> => {
  await (globalThis as { servers?: Servers }).servers?.stop();
};
