import { type Faults, faultsOf } from '../models/faults';
import { answerOf, lastText, type Visit } from './relay';

// Fronts with a wire of their own: what the sandbox's models say to a chat, for them to put into
// their own words.

/** A message of a chat as the sandbox's models take it. */
export interface Message {
  role: 'system' | 'user' | 'assistant' | 'tool';
  content?: string;
  tool_call_id?: string;
  tool_calls?: { id: string; type: 'function'; function: { name: string; arguments: string } }[];
}

/** What a front was asked, in the words of a chat. */
export interface Chat {
  model: string;
  messages: Message[];
  max_tokens?: unknown;
  n?: unknown;
  tools?: unknown[] | undefined;
  response_format?: unknown;
}

/** What was said to it. */
export interface Said {
  text: string;
  calls: { id: string; name: string; args: Record<string, unknown> }[];
  finish: 'stop' | 'length' | 'tool_calls';
  prompt: number;
  completion: number;
  cached: number;
  reasoning: number;
}

/** The faults that a request asks for. */
export function faultsIn(visit: Visit): Faults {
  return faultsOf(undefined, lastText({ messages: [visit.body] }));
}

/** What a model says; its figures are the only faults that it is told of. */
export async function saidTo(visit: Visit, chat: Chat): Promise<Said> {
  const messages = chat.messages.map(({ content, ...rest }) => ({
    ...rest,
    content: content?.replaceAll(/\[\[fault:(?!usage)[^\]]*\]\]/g, '') ?? null,
  }));
  const answer = await answerOf(visit, '/v1/chat/completions', {
    ...chat,
    messages,
    model: 'gpt-4o-mini',
  });
  const body = (await answer.body.json()) as Answered;
  const [choice] = body.choices;
  const { prompt_tokens_details: input, completion_tokens_details: output } = body.usage;
  return {
    text: choice?.message.content ?? '',
    calls: (choice?.message.tool_calls ?? []).map(({ id, function: called }) => ({
      id,
      name: called.name,
      args: JSON.parse(called.arguments) as Record<string, unknown>,
    })),
    finish: choice?.finish_reason ?? 'stop',
    prompt: body.usage.prompt_tokens,
    completion: body.usage.completion_tokens,
    cached: input.cached_tokens,
    reasoning: output.reasoning_tokens,
  };
}

interface Answered {
  choices: {
    message: {
      content: string | null;
      tool_calls?: { id: string; function: { name: string; arguments: string } }[];
    };
    finish_reason: Said['finish'];
  }[];
  usage: {
    prompt_tokens: number;
    completion_tokens: number;
    prompt_tokens_details: { cached_tokens: number };
    completion_tokens_details: { reasoning_tokens: number };
  };
}
