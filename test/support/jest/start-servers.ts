import { type Servers, startServers } from '../servers';

// Jest calls the whole module, so the function is the module.
export = async (): Promise<void> => {
  (globalThis as { servers?: Servers }).servers = await startServers();
};
