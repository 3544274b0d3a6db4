import type { Cost } from '../call/cost';
import { cutMember } from '../wire/edits';
import { membersOf, type Span } from '../wire/scan';

/**
 * An answer, or an event of one, with `cost` and `cost_details` at the end of its usage; undefined
 * if it has no usage object. All other characters stay. The text must be a JSON object.
 */
export function withCost(text: string, cost: Cost): string | undefined {
  const usage = usageIn(text);
  if (usage === undefined) return undefined;
  return text.slice(0, usage.start) + extended(text, usage, cost) + text.slice(usage.end);
}

/** Where the usage of an answer is, or of the response that an event tells of. */
export function usageIn(text: string): Span | undefined {
  const open = text.indexOf('{');
  return objectOf(text, open, 'usage') ?? usageOfResponse(text, open);
}

function usageOfResponse(text: string, open: number): Span | undefined {
  const response = objectOf(text, open, 'response');
  return response && objectOf(text, response.start, 'usage');
}

/** The member of a name that is an object; of several the last, as parsers take it. */
function objectOf(text: string, open: number, name: string): Span | undefined {
  let found: Span | undefined;
  for (const [key, member] of membersOf(text, open)) if (key === name) found = member;
  return found !== undefined && text[found.start] === '{' ? found : undefined;
}

/** The usage, without a cost that its provider told: that is another one. */
function extended(text: string, { start, end }: Span, cost: Cost): string {
  let placed = {
    text: text.slice(start, end),
    spans: new Map(membersOf(text.slice(start, end), 0)),
  };
  for (const name of ['cost', 'cost_details']) {
    while (placed.spans.has(name)) {
      const { text: left } = cutMember(placed, name);
      placed = { text: left, spans: new Map(membersOf(left, 0)) };
    }
  }
  const { text: usage, spans } = placed;
  const close = usage.lastIndexOf('}');
  const comma = spans.size > 0 ? ',' : '';
  return `${usage.slice(0, close)}${comma}${membersFor(cost)}${usage.slice(close)}`;
}

/** The number in the digits of the ledger, which a reader of numbers may round. */
function membersFor({ amount, currency, lines }: Cost): string {
  const details = JSON.stringify({ cost: amount, currency, lines });
  return `"cost":${amount},"cost_details":${details}`;
}
