import { answer, type Visit } from './relay';

// The list of models on Gemini's own wire, in parts.

// A server may give fewer than it is asked for.
const PAGE_MAX = 2;

const made = (name: string, ...methods: string[]) => ({
  name: `models/${name}`,
  displayName: name,
  supportedGenerationMethods: methods,
});

/** The models that this sandbox lists: some for chats, some for vectors, one that draws alone. */
export const listed_models = [
  made('gemini-3.8-pro', 'generateContent', 'countTokens'),
  made('gemini-3.8-flash', 'generateContent', 'countTokens'),
  made('gemini-embedding-001', 'embedContent'),
  made('gemini-embedding-2', 'embedContent', 'asyncBatchEmbedContent'),
  made('veo-4', 'predictLongRunning'),
];

/** `GET /v1beta/models`: `pageSize`, and the `pageToken` of the part before. */
export function serveList(visit: Visit): void {
  const query = new URL(visit.path, 'http://sandbox').searchParams;
  const size = Math.min(Number(query.get('pageSize') ?? PAGE_MAX), PAGE_MAX);
  const token = query.get('pageToken');
  const start = token === null ? 0 : Number(Buffer.from(token, 'base64').toString());
  const end = start + size;
  const next = Buffer.from(String(end)).toString('base64');
  answer(visit, 200, {
    models: listed_models.slice(start, end),
    ...(end < listed_models.length ? { nextPageToken: next } : {}),
  });
}
