import { randomBytes } from 'node:crypto';
import { createReadStream, readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import type { Context, Middleware } from 'koa';
import { AppError } from '../../domain/errors';
import { API_VERSION } from '../../runtime/version';

/** What a build leaves in its folder beside the files. */
export interface Built {
  /** Paths below /assets: the entry of the page, its styles, and the addresses it was built for. */
  script: string;
  styles: string[];
  origins: string;
  api_url: string;
  gateway_url: string;
}

const types: Readonly<Record<string, string>> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
};

/** Reads what `npm run build:console` has left in a folder; throws words if there is nothing. */
export function readBuild(folder: string): Built {
  try {
    return JSON.parse(readFileSync(path.join(folder, 'built.json'), 'utf8'));
  } catch {
    throw new AppError(
      'unavailable',
      `There is no built console in ${folder}: run npm run build:console, or name its folder in CONSOLE_DIR.`,
    );
  }
}

/**
 * Serves the built files, which never change under their names, and for every other path the one
 * page. Paths of /api are not its own.
 */
export function pages(folder: string): Middleware {
  const built = readBuild(folder);
  const assets = path.join(folder, 'assets');
  const files = new Set(readdirSync(assets));
  return async (ctx, next) => {
    if (ctx.path.startsWith('/api/') || ctx.path === '/api') return next();
    if (ctx.method !== 'GET' && ctx.method !== 'HEAD') return next();
    const name = /^\/assets\/([\w.-]+)$/.exec(ctx.path)?.[1];
    if (name !== undefined) {
      if (files.has(name) && types[path.extname(name)])
        return sendFile(ctx, { assets, name, files });
      return next();
    }
    if (/\.\w+$/.test(ctx.path) || ctx.path.startsWith('/assets')) return next();
    sendPage(ctx, built);
  };
}

const encodings = [
  ['br', '.br'],
  ['gzip', '.gz'],
] as const;

/** Sends a file in the smallest form that there is and the browser takes. */
function sendFile(
  ctx: Context,
  { assets, name, files }: { assets: string; name: string; files: ReadonlySet<string> },
): void {
  const taken = encodings.find(
    ([encoding, end]) => files.has(`${name}${end}`) && ctx.acceptsEncodings(encoding) !== false,
  );
  const file = path.join(assets, `${name}${taken?.[1] ?? ''}`);
  if (taken !== undefined) ctx.set('content-encoding', taken[0]);
  ctx.set('vary', 'accept-encoding');
  ctx.set('cache-control', 'public, max-age=31536000, immutable');
  ctx.set('content-length', String(statSync(file).size));
  ctx.set('content-type', types[path.extname(name)] as string);
  ctx.body = createReadStream(file);
}

/** The page: of a person who is signed in, and of one who is not. It holds nothing of either. */
function sendPage(ctx: Context, { script, styles, origins }: Built): void {
  const nonce = randomBytes(16).toString('base64');
  ctx.set('content-security-policy', policyOf(nonce));
  ctx.set('referrer-policy', 'no-referrer');
  ctx.set('cross-origin-opener-policy', 'same-origin');
  ctx.set('cross-origin-resource-policy', 'same-origin');
  ctx.set('permissions-policy', 'camera=(), microphone=(), geolocation=(), payment=()');
  ctx.type = 'html';
  const links = styles.map((file) => `<link rel="stylesheet" href="/assets/${file}">`).join('');
  ctx.body = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Console</title><meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark"><meta property="csp-nonce" nonce="${nonce}"><meta name="svc-version" content="${API_VERSION}"><link rel="icon" href="data:,">${links}<script type="module" src="/assets/${origins}"></script><script type="module" src="/assets/${script}"></script></head><body><div id="root"></div><noscript>The console needs JavaScript.</noscript></body></html>`;
}

/** Only what this server serves; styles that the components write carry the nonce. */
function policyOf(nonce: string): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    `style-src 'self' 'nonce-${nonce}'`,
    "img-src 'self' data:",
    "connect-src 'self'",
    "font-src 'self'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
  ].join('; ');
}
