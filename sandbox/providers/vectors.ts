import { answerOf, standIn, type Visit } from './relay';

/** As many as Gemini's models give unasked. */
const DIMENSIONS = 3_072;

interface Made {
  vectors: number[][];
  /** Of each text. */
  tokens: number[];
}

/**
 * A vector for each text and what it counts, by the sandbox's models; or the status that a text
 * asks for: `error status=`.
 */
export async function vectorsOf(
  visit: Visit,
  { texts, dimensions = DIMENSIONS }: { texts: readonly string[]; dimensions?: number | undefined },
): Promise<Made | { fault: number }> {
  const fault = /\[\[fault:error status=(\d+)/.exec(texts.join(' '))?.[1];
  if (fault !== undefined) return { fault: Number(fault) };
  const made: Made = { vectors: [], tokens: [] };
  for (const input of texts) {
    const body = { model: standIn('embed'), input, dimensions };
    const answered = await answerOf(visit, '/v1/embeddings', body);
    const { data, usage } = (await answered.body.json()) as {
      data: { embedding: number[] }[];
      usage: { prompt_tokens: number };
    };
    made.vectors.push(data[0]?.embedding ?? []);
    made.tokens.push(usage.prompt_tokens);
  }
  return made;
}
