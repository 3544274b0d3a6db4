// Streams of chat as a provider writes them, and as a client reads them.

const usage = { prompt_tokens: 7, completion_tokens: 9, total_tokens: 16 };

/** The frame of a chat chunk. */
export function chunk(delta: object, more: object = {}, index = 0): string {
  const choices = [{ index, delta, logprobs: null, finish_reason: null, ...more }];
  return `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', choices })}\n\n`;
}

export const head = chunk({ role: 'assistant', content: '' });
export const end = [
  chunk({}, { finish_reason: 'stop' }),
  `data: ${JSON.stringify({ id: 'c', choices: [], usage })}\n\n`,
  'data: [DONE]\n\n',
];
export function say(words: string[], index = 0): string[] {
  return words.map((content) => chunk({ content }, {}, index));
}

export function callOf(name: string, pieces: string[]): string[] {
  const first = { index: 0, id: 'call_1', type: 'function', function: { name, arguments: '' } };
  return [
    chunk({ tool_calls: [first] }),
    ...pieces.map((given) => chunk({ tool_calls: [{ index: 0, function: { arguments: given } }] })),
  ];
}

export const phrase = [head, ...say(['Hello ', 'to Pro', 'ject', ' A', 'pollo', ' you']), ...end];

interface Heard {
  content: string[];
  arguments: string;
  error?: { code: string; policy: string };
}

/** What a client gets to see of a stream. */
export function heard(text: string): Heard {
  const found: Heard = { content: ['', ''], arguments: '' };
  for (const line of text.split('\n')) {
    if (!line.startsWith('data: {')) continue;
    const event = JSON.parse(line.slice('data: '.length));
    if (event.error) found.error = event.error;
    for (const { index, delta } of event.choices ?? []) {
      found.content[index] += delta.content ?? '';
      found.arguments += delta.tool_calls?.[0]?.function?.arguments ?? '';
    }
  }
  return found;
}
