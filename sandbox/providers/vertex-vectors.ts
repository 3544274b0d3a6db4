import { answer, type Visit } from './relay';
import { vectorsOf } from './vectors';

// Embeddings of Vertex: models of the first generation by `predict`, of the second by
// `embedContent`. A text that is too long is cut without a word, unless `autoTruncate` is false.

interface Instance {
  content?: string;
}
interface Predicted {
  instances?: Instance[];
  parameters?: { outputDimensionality?: number; autoTruncate?: boolean };
}
interface Embedded {
  content?: { parts?: { text?: string }[] };
  outputDimensionality?: number;
  autoTruncate?: boolean;
}

/** How a request is refused: its status and words. */
type Refuse = (visit: Visit, code: number, status: string, message: string) => void;

const INSTANCES_MAX = 250;
const TOKENS_MAX = 2_048;
const instance_members = new Set(['content', 'task_type', 'title']);
const parameter_members = new Set(['outputDimensionality', 'autoTruncate']);
const content_members = new Set([
  ...['content', 'title', 'taskType', 'outputDimensionality', 'autoTruncate', 'embedContentConfig'],
]);

const isNew = (model: string) => /^gemini-embedding-[2-9]/.test(model);
const wrong = 'INVALID_ARGUMENT';

/**
 * `predict` and `embedContent` of Google's models for vectors.
 *
 * Faults, in a text: `error status=`.
 */
export async function serveVertexVectors(
  visit: Visit,
  { model, method }: { model: string; method: string },
  refuse: Refuse,
): Promise<void> {
  if (isNew(model) !== (method === 'embedContent'))
    return refuse(visit, 404, 'NOT_FOUND', `Publisher Model \`${model}\` has no ${method}.`);
  const asked = method === 'predict' ? instancesOf(visit.body, model) : contentOf(visit.body);
  if (typeof asked === 'string') return refuse(visit, 400, wrong, asked);
  const made = await vectorsOf(visit, asked);
  if ('fault' in made) return refuse(visit, made.fault, wrong, 'A fault was asked for.');
  const is_long = made.tokens.map((tokens) => tokens > TOKENS_MAX);
  if (is_long.includes(true) && !asked.cuts)
    return refuse(visit, 400, wrong, `The input token count exceeds the maximum of ${TOKENS_MAX}.`);
  const counted = made.tokens.map((tokens) => Math.min(tokens, TOKENS_MAX));
  if (method === 'embedContent')
    return answer(visit, 200, {
      embedding: { values: made.vectors[0] },
      truncated: is_long[0],
      usageMetadata: { promptTokenCount: counted[0], totalTokenCount: counted[0] },
    });
  answer(visit, 200, {
    predictions: made.vectors.map((values, at) => ({
      embeddings: { values, statistics: { truncated: is_long[at], token_count: counted[at] } },
    })),
    metadata: { billableCharacterCount: asked.texts.join('').replaceAll(/\s/g, '').length },
  });
}

interface Asked {
  texts: string[];
  dimensions: number | undefined;
  /** What is too long is cut. */
  cuts: boolean;
}

/** What a body of `predict` asks for, or what is wrong with it. */
function instancesOf(body: Predicted, model: string): Asked | string {
  const { instances = [], parameters = {}, ...rest } = body;
  const unknown =
    Object.keys(rest)[0] ??
    instances.flatMap((one) => Object.keys(one)).find((name) => !instance_members.has(name)) ??
    Object.keys(parameters).find((name) => !parameter_members.has(name));
  if (unknown !== undefined) return `Invalid JSON payload received. Unknown name "${unknown}".`;
  const most = model.startsWith('gemini-') ? 1 : INSTANCES_MAX;
  if (instances.length === 0 || instances.length > most)
    return `${instances.length} instance(s) is not in the allowed range: from 1 to ${most}.`;
  const texts = instances.map(({ content = '' }) => content);
  if (texts.includes('')) return 'The text content is empty.';
  const { outputDimensionality: dimensions, autoTruncate: cuts = true } = parameters;
  return { texts, dimensions, cuts };
}

/** What a body of `embedContent` asks for, or what is wrong with it. */
function contentOf(body: Embedded): Asked | string {
  const unknown = Object.keys(body).find((name) => !content_members.has(name));
  if (unknown !== undefined) return `Invalid JSON payload received. Unknown name "${unknown}".`;
  const { content, outputDimensionality: dimensions, autoTruncate: cuts = true } = body;
  const text = (content?.parts ?? []).map(({ text: part = '' }) => part).join('');
  if (text === '') return 'The content is empty.';
  return { texts: [text], dimensions, cuts };
}
