import { AppError } from '../../domain/errors';
import type { Call } from '../call/call';
import type { Running } from '../call/snapshot';
import { type Identifier, openIdentifier } from '../identity/identifier';

const byConfiguration = new WeakMap<Running, Identifier>();

/** Who calls, for what is only told of them: whoever is not known is asked for one at a time, so that a flood asks little. */
export function rareIdentifier({
  running,
  gateway,
}: Pick<Call, 'running' | 'gateway'>): Identifier {
  const known = byConfiguration.get(running);
  if (known !== undefined) return known;
  const { limits, identities, control_plane } = gateway;
  const opened = openIdentifier(running.settings, {
    control_plane,
    identities: {
      ...identities,
      who: (digest, ask) =>
        identities.who(digest, () => {
          // Thrown before anything is remembered.
          if (limits.is_asking) throw new AppError('overloaded', 'Another caller is asked for.');
          limits.is_asking = true;
          return ask().finally(() => {
            limits.is_asking = false;
          });
        }),
    },
  });
  byConfiguration.set(running, opened);
  return opened;
}
