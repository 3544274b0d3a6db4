import { mayUse } from '../../domain/people/identity';
import type { ServedModel } from '../config/targets';
import type { Shape } from '../providers/kind';

/** A model, or a group of them, as lists of models show it. */
export interface Listed {
  model: string;
  provider: string;
  /** What may serve it, as the price list names them. */
  priced: readonly { provider: string; model: string }[];
}

/** What of a target a list shows. */
interface Serving {
  shape: Shape;
  provider: string;
  models: readonly ServedModel[];
}

// The owner of what no single provider serves.
const GROUP_OWNER = 'svc';

/** Every model and group that some path reaches, with its provider, in the file's order. */
export function listedModels(
  targets: readonly Serving[],
  groups: ReadonlyMap<string, readonly string[]>,
  shapes: ReadonlySet<Shape>,
  allowed: readonly string[] | null,
): Listed[] {
  const served = targets
    .filter(({ shape }) => shapes.has(shape))
    .flatMap(({ models, provider }) =>
      models.map(({ name, priced }) => ({
        ...{ model: name, provider, priced: [{ provider, model: priced }] },
      })),
    );
  const usable = served.filter(({ model }) => mayUse(allowed, model));
  const of_groups = [...groups]
    .filter(([, models]) => usable.some(({ model }) => models.includes(model)))
    .map(([model, models]): Listed => {
      const members = usable.filter((one) => models.includes(one.model));
      return { model, provider: GROUP_OWNER, priced: members.flatMap(({ priced }) => priced) };
    });
  // A group goes before a model of its name.
  const alone = usable.filter(({ model }) => !groups.has(model));
  return firstOfEach([...alone, ...of_groups]);
}

/** Each name once, as the first of it says, with all that may serve it. */
function firstOfEach(listed: readonly Listed[]): Listed[] {
  const found = new Map<string, Listed>();
  for (const one of listed) {
    const known = found.get(one.model);
    const priced = [...(known?.priced ?? []), ...one.priced];
    found.set(one.model, { ...(known ?? one), priced });
  }
  return [...found.values()];
}
