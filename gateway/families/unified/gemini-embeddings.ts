import type { VectorMethod } from '../../providers/kind';
import { type Body, countOf, isObject, listOf, objectIn } from '../../wire/values';
import { wrong } from '../input';
import type { Told } from '../reader';
import type { AnswerHead, Translation, Translator } from '../translation';
import { nothing_used } from '../usage';
import { translateWhole } from './completion';
import { shown, unavailable } from './words';

/**
 * Embeddings spoken to Gemini on its own wire: at Gemini one request for all texts, which
 * `embedContent` would make one vector of (ai.google.dev/api/embeddings); at Vertex by the method
 * of the model (docs.cloud.google.com/vertex-ai/generative-ai/docs/embeddings).
 */
export const embeddingsOverGemini: Translation = {
  upstream_path: '/embeddings',
  request: ({ body }, model, { vectors }) =>
    JSON.stringify(bodies[vectors?.(model) ?? 'batchEmbedContents'](wantedOf(body), model)),
  open: (_, about) => whole(about),
};

// What changes no vector: who asks, and the form in which this gateway writes them.
const known: ReadonlySet<string> = new Set(['model', 'input', 'dimensions', 'encoding_format']);

interface Wanted {
  texts: readonly string[];
  /** Absent: as many as the model has. */
  outputDimensionality?: number;
}

/** Throws `invalid_field` for what this wire has no word for. */
function wantedOf(body: Body): Wanted {
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
  return { texts, ...(dimensions == null ? {} : { outputDimensionality: Number(dimensions) }) };
}

const contentOf = (text: string) => ({ role: 'user', parts: [{ text }] });

// What is too long is refused: Vertex would leave out the rest of a text without a word.
const bodies: Record<VectorMethod, (wanted: Wanted, model: string) => Body> = {
  batchEmbedContents: ({ texts, ...rest }, model) => ({
    requests: texts.map((text) => ({
      model: `models/${model}`,
      content: contentOf(text),
      ...rest,
    })),
  }),
  predict: ({ texts, ...rest }) => ({
    instances: texts.map((content) => ({ content })),
    parameters: { autoTruncate: false, ...rest },
  }),
  embedContent: ({ texts: [text = '', ...others], ...rest }) => {
    if (others.length > 0) throw unavailable('input', 'More than one text in "input"');
    return { content: contentOf(text), autoTruncate: false, ...rest };
  },
};

function whole({ model, body, estimated_prompt_tokens = 0 }: AnswerHead): Translator {
  let usage: Told | undefined;
  const translate = (bytes: Buffer) => {
    const answer = objectIn(bytes.toString('utf8'));
    const vectors = vectorsIn(answer ?? {});
    if (answer === undefined || answer.error != null || vectors.length === 0) return bytes;
    const prompt_tokens = tokensIn(answer, vectors);
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

/** Each with its `values`, as each method gives them. */
function vectorsIn({ embeddings, embedding, predictions }: Body): Body[] {
  if (isObject(embedding)) return [embedding];
  return [
    ...listOf(embeddings),
    ...listOf(predictions).map((one) => (isObject(one.embeddings) ? one.embeddings : {})),
  ];
}

/** Of all texts together, or of each of them; 0 if none is told. */
function tokensIn({ usageMetadata }: Body, vectors: readonly Body[]): number {
  if (isObject(usageMetadata)) return countOf(usageMetadata.promptTokenCount);
  const counts = vectors.map(({ statistics }) =>
    isObject(statistics) ? countOf(statistics.token_count) : 0,
  );
  return counts.includes(0) ? 0 : counts.reduce((sum, count) => sum + count, 0);
}

/** Floats of 32 bits, the lowest byte first, as OpenAI's wire has them. */
function inBase64(values: readonly unknown[]): string {
  const bytes = Buffer.alloc(values.length * 4);
  for (const [at, value] of values.entries()) bytes.writeFloatLE(Number(value), at * 4);
  return bytes.toString('base64');
}
