import { type Body, countOf, isObject, listOf, objectIn } from '../../wire/values';
import { wrong } from '../input';
import type { Told } from '../reader';
import type { AnswerHead, Translation, Translator } from '../translation';
import { nothing_used } from '../usage';
import { translateWhole } from './completion';
import { shown, unavailable } from './words';

/**
 * Embeddings spoken to Gemini on its own wire: one request for all texts, which `embedContent`
 * would make one vector of (ai.google.dev/api/embeddings).
 */
export const embeddingsOverGemini: Translation = {
  upstream_path: '/embeddings',
  request: ({ body }, model) => JSON.stringify(toGemini(body, model)),
  open: (_, about) => whole(about),
};

// What changes no vector: who asks, and the form in which this gateway writes them.
const known: ReadonlySet<string> = new Set(['model', 'input', 'dimensions', 'encoding_format']);

function toGemini(body: Body, model: string): Body {
  const other = Object.keys(body).find(
    (name) => !known.has(name) && name !== 'user' && body[name] != null,
  );
  if (other !== undefined) throw unavailable(shown(other), `"${shown(other)}"`);
  const { input, dimensions, encoding_format: format } = body;
  if (format != null && format !== 'float' && format !== 'base64')
    throw wrong('encoding_format', '"encoding_format" is float or base64.');
  if (dimensions != null && !(Number.isSafeInteger(dimensions) && Number(dimensions) > 0))
    throw wrong('dimensions', '"dimensions" is a whole number from 1 on.');
  const texts = typeof input === 'string' ? [input] : input;
  if (!Array.isArray(texts)) throw wrong('input', '"input" must be a text or a list of texts.');
  if (!texts.every((text) => typeof text === 'string'))
    throw unavailable('input', 'An "input" of tokens');
  const requests = texts.map((text) => ({
    model: `models/${model}`,
    content: { role: 'user', parts: [{ text }] },
    ...(dimensions == null ? {} : { outputDimensionality: dimensions }),
  }));
  return { requests };
}

function whole({ model, body, estimated_prompt_tokens = 0 }: AnswerHead): Translator {
  let usage: Told | undefined;
  const translate = (bytes: Buffer) => {
    const answer = objectIn(bytes.toString('utf8'));
    const vectors = listOf(answer?.embeddings);
    if (answer === undefined || answer.error != null || vectors.length === 0) return bytes;
    const { promptTokenCount } = isObject(answer.usageMetadata) ? answer.usageMetadata : {};
    const prompt_tokens = countOf(promptTokenCount);
    if (prompt_tokens > 0) usage = { ...nothing_used, prompt_tokens };
    const write = body?.encoding_format === 'base64' ? inBase64 : (values: unknown[]) => values;
    const data = vectors.map(({ values }, index) => {
      const embedding = write(Array.isArray(values) ? values : []);
      return { object: 'embedding', index, embedding };
    });
    // Older models tell no count; then it is that of this gateway.
    const tokens = usage?.prompt_tokens ?? estimated_prompt_tokens;
    const told = { prompt_tokens: tokens, total_tokens: tokens };
    return Buffer.from(JSON.stringify({ object: 'list', data, model, usage: told }));
  };
  return translateWhole(translate, (measured) => {
    measured.usage = usage;
  });
}

/** Floats of 32 bits, the lowest byte first, as OpenAI's wire has them. */
function inBase64(values: readonly unknown[]): string {
  const bytes = Buffer.alloc(values.length * 4);
  for (const [at, value] of values.entries()) bytes.writeFloatLE(Number(value), at * 4);
  return bytes.toString('base64');
}
