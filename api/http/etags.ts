import type { Context } from 'koa';

/** Answers with a body under its ETag; 304 to who has this one already. */
export function answerUnlessKnown(http: Context, etag: string, body: string): void {
  http.set('cache-control', 'no-cache');
  http.etag = etag;
  http.status = 200;
  if (http.fresh) answerKnown(http, etag);
  else http.body = body;
}

/** 304, to who has the body of this ETag. */
export function answerKnown(http: Context, etag: string): void {
  http.set('cache-control', 'no-cache');
  http.etag = etag;
  http.status = 304;
  http.body = null;
}
