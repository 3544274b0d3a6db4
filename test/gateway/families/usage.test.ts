import { chatReader } from '../../../gateway/families/chat';
import { messageReader } from '../../../gateway/families/messages';
import { nothing_measured, type Reader, type Told } from '../../../gateway/families/reader';
import { responseReader } from '../../../gateway/families/responses';

// What providers tell of usage, in whatever dialect, and what is read of it.

const told = (prompt_tokens: number, completion_tokens: number) => ({
  prompt_tokens,
  completion_tokens,
});

const dialects: [string, object, object | undefined][] = [
  ['the usual', { ...told(1_000, 100), total_tokens: 1_100 }, told(1_000, 100)],
  [
    'cached inside the prompt',
    { ...told(1_000, 100), total_tokens: 1_100, prompt_tokens_details: { cached_tokens: 900 } },
    { ...told(1_000, 100), cached_tokens: 900 },
  ],
  [
    'cached beside the prompt, as only the total says',
    { ...told(100, 100), total_tokens: 1_100, prompt_tokens_details: { cached_tokens: 900 } },
    { ...told(1_000, 100), cached_tokens: 900 },
  ],
  [
    'more cached than prompt, without a total',
    { ...told(100, 100), prompt_tokens_details: { cached_tokens: 900 } },
    { ...told(1_000, 100), cached_tokens: 900 },
  ],
  [
    'cached and reasoning beside the others',
    {
      ...told(100, 50),
      total_tokens: 1_150,
      cached_tokens: 900,
      completion_tokens_details: { reasoning_tokens: 100 },
    },
    { ...told(1_000, 150), cached_tokens: 900, reasoning_tokens: 100 },
  ],
  [
    'input of tools in the total only',
    { ...told(1_000, 100), total_tokens: 6_100 },
    told(6_000, 100),
  ],
  [
    'reasoning in the total only',
    { ...told(10, 40), total_tokens: 350, completion_tokens_details: { reasoning_tokens: 300 } },
    { ...told(10, 340), reasoning_tokens: 300 },
  ],
  [
    'reasoning beside the output, without a total',
    { ...told(10, 40), completion_tokens_details: { reasoning_tokens: 300 } },
    { ...told(10, 340), reasoning_tokens: 300 },
  ],
  [
    'reasoning inside the output, counted one above it, with what the total has more',
    {
      ...told(951, 6_000),
      total_tokens: 6_952,
      completion_tokens_details: { reasoning_tokens: 6_001 },
    },
    { ...told(951, 6_001), reasoning_tokens: 6_001 },
  ],
  [
    'reasoning counted above an output that the total holds whole',
    {
      ...told(951, 6_000),
      total_tokens: 6_951,
      completion_tokens_details: { reasoning_tokens: 6_001 },
    },
    { ...told(951, 6_000), reasoning_tokens: 6_000 },
  ],
  [
    'reasoning and input of tools in the total',
    { ...told(10, 40), total_tokens: 1_350, completion_tokens_details: { reasoning_tokens: 300 } },
    { ...told(1_010, 340), reasoning_tokens: 300 },
  ],
  ['a total that is too small', { ...told(1_000, 100), total_tokens: 5 }, told(1_000, 100)],
  [
    'hits and misses beside the prompt that they add up to',
    { ...told(1_000, 100), prompt_cache_hit_tokens: 900, prompt_cache_miss_tokens: 100 },
    { ...told(1_000, 100), cached_tokens: 900 },
  ],
  [
    'hits and misses without a prompt',
    { completion_tokens: 100, prompt_cache_hit_tokens: 900, prompt_cache_miss_tokens: 100 },
    { ...told(1_000, 100), cached_tokens: 900 },
  ],
  [
    'cached tokens at the top',
    { ...told(1_000, 100), cached_tokens: 900 },
    { ...told(1_000, 100), cached_tokens: 900 },
  ],
  [
    'cached tokens of zero in one place, and of more in another',
    { ...told(9, 1), prompt_tokens_details: { cached_tokens: 0 }, prompt_cache_hit_tokens: 5 },
    { ...told(9, 1), cached_tokens: 5 },
  ],
  [
    'the names of the other route',
    { input_tokens: 1_000, output_tokens: 100, input_tokens_details: { cached_tokens: 9 } },
    { ...told(1_000, 100), cached_tokens: 9 },
  ],
  ['numbers as text', { prompt_tokens: '1000', completion_tokens: '100' }, told(1_000, 100)],
  ['fractions', { prompt_tokens: 999.2, completion_tokens: 99.5 }, told(1_000, 100)],
  ['a prompt of zero', { ...told(0, 100), total_tokens: 100 }, told(0, 100)],
  ['output alone', { completion_tokens: 100 }, told(0, 100)],
  ['a total alone', { total_tokens: 1_100 }, { ...told(0, 0), total_tokens: 1_100 }],
  ['nothing above zero', { ...told(0, 0), total_tokens: 0 }, undefined],
  ['negative counts', told(-5, -1), undefined],
  [
    'counts that nobody means, for the bounds to cut',
    { prompt_tokens: 2 ** 53, completion_tokens: 1e308 },
    told(Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER),
  ],
  ['texts that are no counts', { prompt_tokens: 'many', completion_tokens: '1e9' }, undefined],
  ['no object', [1, 2], undefined],
  ['null', null as unknown as object, undefined],
  [
    'more cached than there is, beside a count of what was written',
    { ...told(100, 1), cached_tokens: 60, cache_creation_input_tokens: 90 },
    { ...told(250, 1), cached_tokens: 60, cache_write_tokens: 90 },
  ],
];

test.each(dialects)('the wire of OpenAI, %s', (_, usage, expected) => {
  for (const reader of [chatReader, responseReader]) {
    const found = reader.usageOf(usage);
    if (expected === undefined) expect(found).toBeUndefined();
    else expect(found).toMatchObject(expected);
  }
});

const message = (input_tokens: number, output_tokens: number) => ({ input_tokens, output_tokens });

test.each<[string, object, object | undefined]>([
  [
    'cached beside the input',
    { ...message(100, 9), cache_read_input_tokens: 900, cache_creation_input_tokens: 50 },
    { ...told(1_050, 9), cached_tokens: 900, cache_write_tokens: 50 },
  ],
  ['an input of zero', message(0, 100), told(0, 100)],
  ['numbers as text', { input_tokens: '10', output_tokens: '5' }, told(10, 5)],
  ['the names of the other wire', told(10, 5), told(10, 5)],
  [
    'rounds alone',
    { iterations: [message(10, 5), message(20, 7)] },
    { ...told(30, 12), rounds: 2 },
  ],
  [
    'rounds that the other figures sum up',
    { ...message(30, 12), iterations: [message(10, 5), message(20, 7)] },
    { ...told(30, 12), rounds: 2 },
  ],
  [
    'what shortened the conversation, beside the other figures',
    { ...message(30, 12), iterations: [{ type: 'compaction', ...message(1_000, 100) }] },
    { ...told(1_030, 112), uncapped_tokens: 100 },
  ],
  ['nothing above zero', message(0, 0), undefined],
  ['negative counts', message(-1, -1), undefined],
])('the wire of Anthropic, %s', (_, usage, expected) => {
  const found = messageReader.usageOf(usage);
  if (expected === undefined) expect(found).toBeUndefined();
  else expect(found).toMatchObject(expected);
});

/** What is read of the usage in these chunks. */
function streamed(reader: Reader, chunks: object[]): Told | undefined {
  const found = { ...nothing_measured };
  const read = reader.openStream(found, 1);
  for (const chunk of chunks) read(chunk as Record<string, unknown>);
  return found.usage;
}

test.each<[string, object[], object | undefined]>([
  ['in the last chunk', [{ choices: [] }, { choices: [], usage: told(10, 5) }], told(10, 5)],
  ['in a choice', [{ choices: [{ index: 0, delta: {}, usage: told(10, 5) }] }], told(10, 5)],
  ['in a member of its own', [{ choices: [], x_groq: { usage: told(10, 5) } }], told(10, 5)],
  [
    'growing in each chunk',
    [{ usage: told(10, 1) }, { usage: told(10, 2) }, { usage: told(10, 5) }],
    told(10, 5),
  ],
  ['twice', [{ usage: told(10, 5) }, { usage: told(10, 5) }], told(10, 5)],
  [
    'whole, and then of nothing',
    [{ usage: told(10, 5) }, { usage: told(0, 0) }, { usage: null }],
    told(10, 5),
  ],
  [
    'in halves',
    [{ usage: { prompt_tokens: 10 } }, { usage: { completion_tokens: 5 } }],
    told(10, 5),
  ],
  ['never', [{ choices: [] }], undefined],
])('a chat stream tells its usage %s', (_, chunks, expected) => {
  const found = streamed(chatReader, chunks);
  if (expected === undefined) expect(found).toBeUndefined();
  else expect(found).toMatchObject(expected);
});
