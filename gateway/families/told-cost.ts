import { PROVIDER_COST_MAX_USD } from '../../domain/money';
import { compared, decimalText, plus, shifted } from '../../domain/prices/decimals';
import type { CostTold } from '../providers/kind';
import { type Body, isObject } from '../wire/values';
import type { Measured, Reader } from './reader';

/** In the place of a figure that is no amount, or none that a call can have cost. */
export const UNSOUND = 'unsound';

/**
 * What a usage object says that the call cost its provider's customer: USD as exact decimal text,
 * or `UNSOUND`; undefined if it does not say it.
 */
export function costIn({ parts, unit_places }: CostTold, usage: Body): string | undefined {
  let sum = '0';
  for (const part of parts(usage)) {
    if (part === undefined || part === null) return undefined;
    const amount = decimalText(part);
    if (amount === undefined) return UNSOUND;
    sum = plus(sum, amount);
  }
  const cost = shifted(sum, -unit_places);
  return compared(cost, String(PROVIDER_COST_MAX_USD)) > 0 ? UNSOUND : cost;
}

/** A reader that also notes what a provider says that the call cost; the last word counts. */
export function withCostTold(told: CostTold | undefined, reader: Reader): Reader {
  if (told === undefined) return reader;
  const note = (body: Body, found: Measured): void => {
    const usage = body.usage ?? (isObject(body.response) ? body.response.usage : undefined);
    if (isObject(usage)) found.cost_told = costIn(told, usage) ?? found.cost_told;
  };
  return {
    ...reader,
    readAnswer(answer, found) {
      note(answer, found);
      reader.readAnswer(answer, found);
    },
    openStream(found, choices) {
      const readEvent = reader.openStream(found, choices);
      return (event) => {
        note(event, found);
        return readEvent(event);
      };
    },
  };
}
