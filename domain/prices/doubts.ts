import type { Metadata } from '../ledger/price-lists';
import type { ListedPrice } from './catalogs/catalog';
import { compared, over, shifted, times } from './decimals';
import { flat, parents } from './listed';
import { namesOf } from './sellers';

// What makes a proposed price doubtful, so that a person has to say yes to this very row.

/** One amount that an import would change; null where a side says nothing. */
export interface AmountChange {
  /**
   * `input_per_1m`, `above 200000: input_per_1m`, `priority: input_per_1m`; or `max_output_tokens`,
   * `price_factor`, `factor at eu`, and `reasoning`, which is `true` or `false`.
   */
  amount: string;
  was: string | null;
  now: string | null;
  /** `+25.0`; null without both. */
  percent: string | null;
}

// A rise of more than 25 per cent and a fall of more than 50 are no usual change.
const RISE = '1.25';
const FALL = '0.5';
// USD per million, and per unit: what no model has cost yet.
const DEAREST = '10000';
const DEAREST_UNIT = '100';
// Slips of units: a token for a million, cents for dollars.
const SLIPS = ['10', '1000', '1000000'];
// Charged beside tokens: one that appears raises each call.
const fee = /per_(request|minute|1m_characters|page|tool_call)$/;

function hasParent(amount: string): boolean {
  return Object.hasOwn(parents, amount.slice(amount.lastIndexOf(' ') + 1));
}

/**
 * What differs between two prices, amount by amount. Nothing and zero are the same for fees, but
 * not where a parent's amount stands in.
 */
export function changesOf(was: ListedPrice | undefined, now: ListedPrice): AmountChange[] {
  const before = flat(was);
  const after = flat(now);
  const names = [...new Set([...before.keys(), ...after.keys()])];
  return names.flatMap((amount) => {
    const old = before.get(amount) ?? null;
    const fresh = after.get(amount) ?? null;
    const absent = hasParent(amount) ? null : '0';
    if ((old ?? absent) === (fresh ?? absent)) return [];
    return [{ amount, was: old, now: fresh, percent: percentOf(old, fresh) }];
  });
}

/** How far an amount moves: `+25.0`, `-50.0`; null without both, and from zero. */
export function percentOf(was: string | null, now: string | null): string | null {
  if (was === null || now === null || was === '0') return null;
  const change = (Number(now) / Number(was) - 1) * 100;
  return `${change < 0 ? '' : '+'}${change.toFixed(1)}`;
}

/**
 * What a catalog says of a model that decides what is held and charged, where it is other than what
 * is stored. An import keeps what its catalog does not say, and takes no `reasoning` back.
 */
export function factChanges(
  was: { max_output_tokens: number | null; reasoning: boolean } | undefined,
  { max_output_tokens, reasoning }: Metadata,
): AmountChange[] {
  const old = was?.max_output_tokens ?? null;
  const changes: AmountChange[] = [];
  if (max_output_tokens != null && max_output_tokens !== old) {
    const texts = [old === null ? null : String(old), String(max_output_tokens)] as const;
    const percent = percentOf(...texts);
    changes.push({ amount: 'max_output_tokens', was: texts[0], now: texts[1], percent });
  }
  if (reasoning === true && was?.reasoning !== true)
    changes.push({ amount: 'reasoning', was: 'false', now: 'true', percent: null });
  return changes;
}

/** Such changes that somebody has to say yes to. */
export function factDoubts(changes: readonly AmountChange[]): string[] {
  return changes.flatMap(({ amount, was, now }) => {
    if (amount === 'reasoning')
      return ['answers that are left early would be charged in full: the model is said to reason'];
    return was !== null && Number(now) < Number(was)
      ? [`${amount} falls from ${was} to ${now}: of longer answers only so much is charged`]
      : [];
  });
}

/** Changes of a price that are more likely a slip than a new price. */
export function leaps(changes: readonly AmountChange[]): string[] {
  return changes.flatMap(({ amount, was, now, percent }) => {
    if (was === null) return fee.test(amount) ? [`${amount} (${now}) is new`] : [];
    if (now === null) return [`${amount} (${was}) is no longer listed`];
    if (was === '0') return [`${amount} was 0 and is ${now}`];
    const slip = SLIPS.find(
      (factor) => isNear(now, times(was, factor)) || isNear(was, times(now, factor)),
    );
    if (slip !== undefined) return [`${amount} moves by a factor near ${slip}: ${was} to ${now}`];
    if (compared(now, times(was, RISE)) > 0 || compared(now, times(was, FALL)) < 0)
      return [`${amount} moves by ${percent} per cent: ${was} to ${now}`];
    return [];
  });
}

/** Within one per cent. */
function isNear(a: string, b: string): boolean {
  if (b === '0') return a === '0';
  return (
    compared(a, over(times(b, '99'), 100)) >= 0 && compared(a, shifted(times(b, '101'), -2)) <= 0
  );
}

/** What goes in and what comes out: a price that charges one alone gives the other away. */
const sides = ['input', 'output'] as const;
// What comes out of these is no text, and is charged as their input.
const one_sided = /embed|rerank|\b(bge|gte|e5|voyage)\b/i;

/** What a new price of a model would give away: tokens of one side, beside others that cost. */
export function givenAway(model: string, { amounts }: ListedPrice): string[] {
  if (one_sided.test(model)) return [];
  const listed = sides.map((side) =>
    Object.entries(amounts).some(
      ([name, amount]) => name.endsWith(`${side}_per_1m`) && !/^cache/.test(name) && amount !== '0',
    ),
  );
  return sides.flatMap((side, at) => {
    if (listed[at] || !listed.some(Boolean)) return [];
    const said = amounts[`${side}_per_1m`] === undefined ? 'is not listed' : 'is 0';
    return [`${side}_per_1m ${said}: tokens of ${side} would cost nothing`];
  });
}

interface Undersold {
  of: RegExp;
  /** One of these amounts is needed. */
  one_of: readonly (keyof ListedPrice['amounts'])[];
  words: string;
}

// Names of models whose answers bring more than tokens of text, or do not say how many.
const undersold: readonly Undersold[] = [
  {
    // Gemini's speech is a chat, whose answers tell what it took.
    of: /^(?!.*gemini).*(?:(?:^|[^a-z])tts(?:[^a-z]|$)|speech)/i,
    one_of: ['per_minute', 'per_1m_characters'],
    words: 'speech that comes as bytes tells no tokens, so its text alone would be charged',
  },
  {
    of: /(?:^|[^a-z])(?:audio|realtime)(?:[^a-z]|$)/i,
    one_of: ['audio_input_per_1m', 'audio_output_per_1m', 'per_minute', 'per_1m_characters'],
    words: 'sound would be charged as text',
  },
  {
    of: /search-(?:preview|api)|(?:^|[^a-z])sonar|deep-research/i,
    one_of: ['per_web_search', 'per_request'],
    words: 'it searches unasked, and its searches would cost nothing',
  },
];

/** What a new price of a model leaves out that its seller is known to charge for. */
export function leftOut(model: string, { amounts }: ListedPrice, seller: string): string[] {
  const { cache_write_per_1m = '0', cache_write_1h_per_1m, input_per_1m = '0' } = amounts;
  const is_shared =
    namesOf(seller).shares_cached === true &&
    amounts.cached_input_per_1m === undefined &&
    sides.every((side) => (amounts[`${side}_per_1m`] ?? '0') !== '0');
  const cached = is_shared
    ? [
        `cached_input_per_1m is not listed: tokens of a cache would be charged in full, and ${seller} asks a share`,
      ]
    : [];
  const is_unsaid =
    /claude/i.test(model) &&
    cache_write_1h_per_1m === undefined &&
    compared(cache_write_per_1m, input_per_1m) > 0;
  const writes = is_unsaid
    ? [
        'cache_write_1h_per_1m is not listed: writes for an hour would be charged as those for five minutes',
      ]
    : [];
  const is_listed = Object.keys(amounts).length > 0;
  const missing = undersold.filter(
    ({ of, one_of }) =>
      is_listed && of.test(model) && one_of.every((name) => amounts[name] === undefined),
  );
  const told = missing.map(({ one_of, words }) => `${one_of.join(' or ')} is not listed: ${words}`);
  return [...told, ...writes, ...cached];
}

/** Amounts that no model has, and ways to charge that would both be charged. */
export function absurd(price: ListedPrice): string[] {
  const all = flat(price);
  const dear = [...all].flatMap(([name, amount]) => {
    const is_per_million = /_per_1m|per_1m_/.test(name);
    if (/minimum_seconds$/.test(name)) return [];
    return compared(amount, is_per_million ? DEAREST : DEAREST_UNIT) > 0
      ? [`${name} is ${amount} USD`]
      : [];
  });
  const { per_minute = '0', input_per_1m = '0' } = price.amounts;
  const is_twice = per_minute !== '0' && input_per_1m !== '0';
  const twice = is_twice ? ['tokens and minutes would both be charged'] : [];
  return [...dear, ...unpaid(price), ...twice];
}

/** Tokens that would cost nothing beside others that do: many catalogs write 0 for "not sold". */
function unpaid({ amounts, tiers, service_tiers }: ListedPrice): string[] {
  const lists = [
    ['', amounts],
    ...tiers.map((tier) => [`above ${tier.above_prompt_tokens}: `, tier] as const),
    ...Object.entries(service_tiers).map(([name, list]) => [`${name}: `, list.amounts] as const),
  ] as const;
  return lists.flatMap(([before, list]) =>
    Object.entries(parents).flatMap(([name, chain]) => {
      // The nearest one that says something, as for tokens that are written for an hour.
      const parent = chain.find((one) => (list[one] ?? amounts[one]) !== undefined);
      const whole = (parent && (list[parent] ?? amounts[parent])) ?? '0';
      if (list[name as keyof typeof parents] !== '0' || whole === '0') return [];
      return [`${before}${name} is 0, and ${parent} is ${whole}`];
    }),
  );
}
