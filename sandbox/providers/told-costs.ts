import type { Given, Visit } from './relay';

// OpenRouter and xAI say in each usage what the call cost.

type Usage = Record<string, unknown>;

// The list prices of the sandbox's models, in nanos of a USD a token.
const INPUT = 150;
const CACHED = 75;
const OUTPUT = 600;
const EMBEDDED = 20;
// 1 USD = 10^10 ticks.
const TICKS_PER_NANO = 10;
const NANOS_PER_USD = 1e9;

/** What each of them adds to a usage of so many nanos. */
const members: Record<string, (nanos: number) => Usage> = {
  openrouter: (nanos) => ({
    cost: nanos / NANOS_PER_USD,
    is_byok: false,
    cost_details: { upstream_inference_cost: nanos / NANOS_PER_USD },
  }),
  xai: (nanos) => ({ cost_in_usd_ticks: nanos * TICKS_PER_NANO }),
};

/** True for a provider that says what its calls cost. */
export function tellsCosts(kind: string): boolean {
  return Object.hasOwn(members, kind);
}

/** Answers as the sandbox's models do, each usage with what the call cost. */
export async function passWithCost(visit: Visit, kind: string, answer: Given): Promise<void> {
  const { res } = visit;
  const type = String(answer.headers['content-type'] ?? 'application/json');
  res.writeHead(answer.statusCode, { 'content-type': type });
  const is_stream = type.startsWith('text/event-stream');
  let rest = '';
  try {
    for await (const chunk of answer.body) {
      rest += String(chunk);
      if (!is_stream) continue;
      const end = rest.lastIndexOf('\n') + 1;
      const lines = rest.slice(0, end).replace(/^data: (\{.*)$/gm, (_, event: string) => {
        return `data: ${withCost(event, kind)}`;
      });
      if (lines !== '') res.write(lines);
      rest = rest.slice(end);
    }
  } catch {
    res.destroy();
    return;
  }
  res.end(is_stream ? rest : withCost(rest, kind));
}

/** A JSON text with the cost in its usage, or in that of its response. */
function withCost(text: string, kind: string): string {
  let event: { usage?: Usage | null; response?: { usage?: Usage | null } };
  try {
    event = JSON.parse(text);
  } catch {
    return text;
  }
  const usage = event.usage ?? event.response?.usage;
  if (usage === undefined || usage === null) return text;
  Object.assign(usage, members[kind]?.(nanosOf(usage)));
  return JSON.stringify(event);
}

function nanosOf(usage: Usage): number {
  const count = (name: string, of: Usage = usage) => Number(of[name] ?? 0);
  const input = count('prompt_tokens') + count('input_tokens');
  const output = count('completion_tokens') + count('output_tokens');
  const is_embedding = usage.completion_tokens === undefined && usage.output_tokens === undefined;
  if (is_embedding) return input * EMBEDDED;
  const details = (usage.prompt_tokens_details ?? usage.input_tokens_details ?? {}) as Usage;
  const cached = count('cached_tokens', details);
  return (input - cached) * INPUT + cached * CACHED + output * OUTPUT;
}
