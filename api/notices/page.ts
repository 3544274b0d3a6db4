import type { Middleware } from 'koa';
import { pageNonce } from '../../domain/notices/links';
import type { Secrets } from '../../domain/secrets';
import { script } from './page-script';

// The page on which somebody who is signed in decides on a cost ticket. What a link carries stands
// behind # in its address: it reaches no server and no log, and whoever fetches the address alone
// decides nothing. The key of the session stays in the page's memory.

const page = (nonce: string) => `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="page-nonce" content="${nonce}">
<title>Approvals</title><link rel="stylesheet" href="/approvals/style.css"></head>
<body><main><h1>Approvals</h1>
<p id="news" role="status"></p>
<form id="sign-in"><p>Sign in to see more.</p>
<label>Access key, or a code from an operator <input id="credential" type="password" autocomplete="off" required></label>
<button>Sign in</button></form>
<section id="ticket" hidden><dl id="facts"></dl>
<label id="source" hidden>Take what is missing from <select id="from"></select></label>
<p id="verdicts"></p></section>
<ul id="inbox"></ul></main>
<script src="/approvals/script.js"></script></body>
</html>`;

const style = `body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 40rem; padding: 0 1rem }
dl { display: grid; gap: .25rem 1rem; grid-template-columns: max-content 1fr }
dt { color: #555 } dd { margin: 0; overflow-wrap: anywhere }
input { display: block; padding: .5rem; width: 100% } button { margin: .5rem .5rem 0 0; padding: .5rem 1rem }`;

const headers = {
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  // It runs its own script, asks this API alone, and nobody may frame it.
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; " +
    "form-action 'none'; frame-ancestors 'none'",
};

/** GET /approvals: the page, each time with a nonce of its own. */
export function approvalPage(secrets: Secrets): Middleware {
  const texts: Record<string, { type: string; text: () => string | Promise<string> }> = {
    '/approvals': { type: 'html', text: async () => page(await pageNonce(secrets, Date.now())) },
    '/approvals/script.js': { type: 'js', text: () => script },
    '/approvals/style.css': { type: 'css', text: () => style },
  };
  return async (ctx, next) => {
    const found = Object.hasOwn(texts, ctx.path) ? texts[ctx.path] : undefined;
    if (found === undefined || (ctx.method !== 'GET' && ctx.method !== 'HEAD')) return next();
    ctx.set(headers);
    ctx.type = found.type;
    ctx.body = await found.text();
  };
}
