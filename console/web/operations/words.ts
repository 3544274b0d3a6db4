import type { Answer } from '../api/client';

export type Gateway = Answer<'GET /api/gateways'>['gateways'][number];
export type Version = Answer<'GET /api/gateway-config/versions'>['versions'][number];
export type Rollout = Answer<'GET /api/config-rollouts'>['rollouts'][number];

/** How a gateway stands to what it is to run. */
export const drifts = {
  in_sync: { word: 'in sync', kind: 'good', about: 'It runs what it is to run.' },
  applying: { word: 'applying', kind: 'waiting', about: 'It is about to run something else.' },
  rejected: { word: 'rejected', kind: 'bad', about: 'It refused the version and keeps its own.' },
  drifted: { word: 'drifted', kind: 'bad', about: 'It runs something else than it should.' },
  silent: { word: 'silent', kind: 'bad', about: 'It says nothing any more.' },
  unsupported: {
    word: 'unsupported',
    kind: 'bad',
    about: 'Its software does not work with this API.',
  },
} as const;

/** Where a rollout stands. */
export const rolloutStates = {
  running: { word: 'goes on', kind: 'waiting' },
  paused: { word: 'paused', kind: 'waiting' },
  completed: { word: 'completed', kind: 'good' },
  rolled_back: { word: 'rolled back', kind: 'bad' },
  aborted: { word: 'aborted', kind: 'neutral' },
  superseded: { word: 'superseded', kind: 'neutral' },
} as const;

/** `version 3`; a gateway without one runs its own file. */
export function versionWords(version: number | null): string {
  return version === null ? 'its own file' : `version ${version}`;
}

/** `2 d 3 h`, `5 min`: how long something has run. */
export function spanWords(seconds: number): string {
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 24
    ? `${hours} h ${minutes % 60} min`
    : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}
