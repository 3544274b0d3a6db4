import type { Context } from 'koa';

/** Answers with a body under its ETag; 304 to who has this one already. */
export function answerUnlessKnown(http: Context, etag: string, body: string): void {
  http.set('cache-control', 'no-cache');
  http.etag = etag;
  http.status = 200;
  const isKnown = http.fresh;
  if (isKnown) http.status = 304;
  http.body = isKnown ? null : body;
}
