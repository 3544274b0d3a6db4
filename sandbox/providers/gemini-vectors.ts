import { refuse } from './gemini-native';
import { answer, answerOf, standIn, type Visit } from './relay';

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
  const texts = requests.map(textOf);
  const fault = /\[\[fault:error status=(\d+)/.exec(texts.join(' '))?.[1];
  if (fault !== undefined)
    return refuse(visit, Number(fault), 'INVALID_ARGUMENT', 'A fault was asked for.');
  const dimensions = requests[0]?.outputDimensionality ?? 3_072;
  const body = { model: standIn('embed'), input: texts, dimensions };
  const answered = await answerOf(visit, '/v1/embeddings', body);
  const { data, usage } = (await answered.body.json()) as {
    data: { embedding: number[] }[];
    usage: { prompt_tokens: number };
  };
  const embeddings = data.map(({ embedding }) => ({ values: embedding }));
  const counted = {
    promptTokenCount: usage.prompt_tokens,
    promptTokenDetails: [{ modality: 'TEXT', tokenCount: usage.prompt_tokens }],
  };
  answer(visit, 200, {
    embeddings,
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
