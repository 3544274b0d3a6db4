import type { Outcome } from '../../domain/ledger/calls';
import { nothing_used } from '../families/usage';
import { refused } from '../stages/outcome';
import { type Body, isObject } from '../wire/values';

/** How requests were answered, by the keys of their ids. */
export interface Answered {
  /** True for a result, false for an error or a question back. */
  results: Map<string, boolean>;
  /** The stream names its events, so that a client may fetch the rest later. */
  is_resumable: boolean;
}

export function nothingAnswered(): Answered {
  return { results: new Map(), is_resumable: false };
}

/** Takes one message of a server into account, or several. */
export function readAnswer(text: string, answered: Answered): void {
  // Most messages of a long stream are notices, which need not be read.
  if (!text.includes('"result"') && !text.includes('"error"')) return;
  for (const message of messagesIn(text)) {
    const { id, result, error } = message;
    if (id === undefined || message.method !== undefined) continue;
    if (result === undefined && error === undefined) continue;
    answered.results.set(JSON.stringify(id), error === undefined && !asksBack(result));
  }
}

/** The call will come again, with what the server asks for; that one is paid for. */
function asksBack(result: unknown): boolean {
  return isObject(result) && result.resultType === 'input_required';
}

/** The messages in a text; none if it holds anything else. */
export function messagesIn(text: string, parse: (text: string) => unknown = JSON.parse): Body[] {
  try {
    const value = parse(text);
    return (Array.isArray(value) ? value : [value]).filter(isObject);
  } catch {
    return [];
  }
}

/** A tool's result is paid for. */
const paid: Outcome = { outcome: 'completed', usage: nothing_used, usage_source: 'upstream' };
/** So is one that may have come after everybody had stopped waiting. */
const presumed: Outcome = { ...paid, usage_source: 'estimated' };

/**
 * The outcome that a tool call is settled at. By an error the server says that the tool did not
 * run.
 */
export function outcomeOfTool(id: string, answered: Answered, is_abandoned: boolean): Outcome {
  const result = answered.results.get(id);
  if (result !== undefined) return result ? paid : refused;
  return is_abandoned || answered.is_resumable ? presumed : refused;
}
