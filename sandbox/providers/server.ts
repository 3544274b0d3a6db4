import { createServer, type Server } from 'node:http';
import { type AzureOptions, serveAzure } from './azure';
import { type BedrockOptions, serveBedrock } from './bedrock';
import { servePlain } from './plain';
import { answer, type Visit } from './relay';
import { serveGemini, serveMistral } from './strict';
import { type EntraOptions, type StsOptions, serveEntra, serveImds, serveSts } from './tokens';
import { serveToken, serveVertex, type VertexOptions } from './vertex';

/** Whom each provider knows. */
export interface ProviderOptions {
  models_url: string;
  bedrock: BedrockOptions;
  vertex: VertexOptions;
  azure: AzureOptions;
  /** Keys that the others take, below `/plain/<kind>`. */
  keys: ReadonlySet<string>;
  sts: StsOptions;
  entra: EntraOptions;
}

/**
 * Providers that have a front of their own, each below its name: `/bedrock`, `/vertex`, `/azure`,
 * `/mistral`, `/gemini`, the others below `/plain`; and who gives tokens: Google's `/token`,
 * `/sts`, `/entra`, `/imds`. Each checks what the real one would, and lets the sandbox's models
 * answer behind it. `seen` is told of each request.
 */
export function createProviderServer(
  options: ProviderOptions,
  seen: (visit: Visit) => void = () => undefined,
): Server {
  return createServer(async (req, res) => {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    const bytes = Buffer.concat(chunks);
    const url = req.url ?? '/';
    const [, name = ''] = /^\/([a-z]+)/.exec(url) ?? [];
    const visit: Visit = {
      method: req.method ?? '',
      path: url.slice(name.length + 1),
      url,
      headers: req.headers,
      bytes,
      body: parsed(bytes),
      res,
      models_url: options.models_url,
    };
    seen(visit);
    try {
      await serve(name, visit, options);
    } catch (error) {
      answer(visit, 500, { error: { message: String(error) } });
    }
  });
}

async function serve(name: string, visit: Visit, options: ProviderOptions): Promise<void> {
  if (name === 'bedrock') return serveBedrock(visit, options.bedrock);
  if (name === 'vertex') return serveVertex(visit, options.vertex);
  if (name === 'token') return serveToken(visit, options.vertex);
  if (name === 'sts') return serveSts(visit, options.sts);
  if (name === 'entra') return serveEntra(visit, options.entra);
  if (name === 'imds') return serveImds(visit, options.entra);
  if (name === 'azure') return serveAzure(visit, options.azure);
  if (name === 'mistral') return serveMistral(visit);
  if (name === 'gemini') return serveGemini(visit, options.keys);
  if (name === 'plain') return servePlain(visit, options.keys);
  answer(visit, 404, { error: { message: `There is no provider ${name}.` } });
}

function parsed(bytes: Buffer): Record<string, unknown> {
  try {
    return JSON.parse(bytes.toString()) as Record<string, unknown>;
  } catch {
    return {};
  }
}
