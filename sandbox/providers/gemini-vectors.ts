import { refuse } from './gemini-native';
import { answer, type Visit } from './relay';
import { vectorsOf } from './vectors';

// Embeddings on Gemini's own wire.

interface Wanted {
  model?: string;
  content?: { parts?: { text?: string }[] };
  outputDimensionality?: number;
}

const members = new Set([
  ...['model', 'content', 'taskType', 'title', 'outputDimensionality', 'embedContentConfig'],
]);
// As it is seen to refuse more.
const REQUESTS_MAX = 100;
const FAULT = 'A fault was asked for.';

/**
 * `batchEmbedContents`: a vector for each request, all of the model in the path. Models of the
 * first generation count no tokens, those of the second do.
 *
 * Faults, in a text: `error status=`.
 */
export async function serveVectors(visit: Visit, model: string): Promise<void> {
  const requests = (visit.body.requests ?? []) as Wanted[];
  const problem = problemOf(visit.body, requests, model);
  if (problem !== undefined) return refuse(visit, 400, 'INVALID_ARGUMENT', problem);
  const asked = { texts: requests.map(textOf), dimensions: requests[0]?.outputDimensionality };
  const made = await vectorsOf(visit, asked);
  if ('fault' in made) return refuse(visit, made.fault, 'INVALID_ARGUMENT', FAULT);
  const tokens = made.tokens.reduce((sum, count) => sum + count, 0);
  const counted = {
    promptTokenCount: tokens,
    promptTokenDetails: [{ modality: 'TEXT', tokenCount: tokens }],
  };
  answer(visit, 200, {
    embeddings: made.vectors.map((values) => ({ values })),
    ...(/embedding-2/.test(model) ? { usageMetadata: counted } : {}),
  });
}

function textOf({ content }: Wanted): string {
  return (content?.parts ?? []).map(({ text = '' }) => text).join('');
}

function problemOf(body: object, requests: Wanted[], model: string): string | undefined {
  const unknown =
    Object.keys(body).find((name) => name !== 'requests') ??
    requests.flatMap((one) => Object.keys(one)).find((name) => !members.has(name));
  if (unknown !== undefined)
    return `Invalid JSON payload received. Unknown name "${unknown}": Cannot find field.`;
  if (requests.length === 0) return '* BatchEmbedContentsRequest.requests: should be non-empty';
  if (requests.length > REQUESTS_MAX)
    return `* BatchEmbedContentsRequest.requests: at most ${REQUESTS_MAX} requests can be in one batch`;
  if (requests.some((one) => one.model !== `models/${model}`))
    return '* BatchEmbedContentsRequest.requests.model: model must match the model in the path';
  if (requests.some((one) => textOf(one) === ''))
    return '* BatchEmbedContentsRequest.requests.content: content is empty';
  return undefined;
}
