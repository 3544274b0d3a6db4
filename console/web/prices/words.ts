import type { Answer } from '../api/client';
import { decimalText } from '../base/decimals';

export type Price = Answer<'GET /api/prices'>['models'][number];

/** The amounts of a price in the order in which they are asked for; in USD but for the seconds. */
export const amounts = {
  input_per_1m: 'Million input tokens',
  cached_input_per_1m: 'Million input tokens read from a cache',
  output_per_1m: 'Million output tokens',
  cache_write_per_1m: 'Million tokens written to a cache',
  cache_write_1h_per_1m: 'Million tokens written to a cache for an hour',
  audio_input_per_1m: 'Million audio input tokens',
  audio_output_per_1m: 'Million audio output tokens',
  image_input_per_1m: 'Million tokens of pictures that are read',
  image_output_per_1m: 'Million tokens of pictures that are made',
  video_input_per_1m: 'Million tokens of video that is read',
  video_output_per_1m: 'Million tokens of video that is made',
  per_1m_characters: 'Million characters',
  per_minute: 'Minute of audio',
  per_request: 'Request, besides all else',
  per_tool_call: 'Tool call of the provider',
  per_web_search: 'Web search',
  per_file_search: 'Search in files',
  per_container: 'Container that code ran in',
  per_page: 'Page',
  minimum: 'Least that a charged request costs',
  minimum_seconds: 'Seconds of sound that are billed at least',
} as const;
export type Amount = keyof typeof amounts;
export const names = Object.keys(amounts) as Amount[];

/** The amounts that every price says. */
const needed: readonly Amount[] = ['input_per_1m', 'output_per_1m'];

export function isNeeded(name: Amount): boolean {
  return needed.includes(name);
}

/** An amount of a price, to its last digit. */
export function amountText(amount: number): string {
  return decimalText(amount);
}

/** What a price says beside tokens of text: `0.006 for a minute of audio`. */
export function furtherWords(price: Price): string[] {
  const shown: readonly Amount[] = ['input_per_1m', 'cached_input_per_1m', 'output_per_1m'];
  const further = names.flatMap((name) => {
    const amount = price[name];
    if (shown.includes(name) || amount === null) return [];
    if (name === 'minimum') return [`a charged request costs ${amountText(amount)} at least`];
    if (name === 'minimum_seconds') return [`${amountText(amount)} seconds are billed at least`];
    return [`${amountText(amount)} for a ${amounts[name].toLowerCase()}`];
  });
  for (const { above_prompt_tokens, input_per_1m, output_per_1m } of price.tiers ?? []) {
    const each = [input_per_1m, output_per_1m].map((one) => amountText(one ?? 0)).join(' and ');
    further.push(`${each} above ${above_prompt_tokens} input tokens`);
  }
  for (const [kind, lists] of [
    ['tier', price.service_tiers],
    ['region', price.regions],
  ] as const)
    if (lists) further.push(`other amounts by ${kind}: ${Object.keys(lists).join(', ')}`);
  return further;
}
