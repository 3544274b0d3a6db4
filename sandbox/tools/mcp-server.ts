import { createServer, type Server } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { type NodeIncomingMessageLike, toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { listen } from '../../runtime/listen';
import { createMailServer } from '../notices/mail';
import { createReceiver, createReceiverServer } from '../notices/receiver';

const SLOW_MS_MAX = 60_000;

/**
 * The tools of an MCP server on this machine, made with the official SDK: both eras of the protocol
 * at one path.
 */
export function createMcpServer(): Server {
  const handler = toNodeHandler(createMcpHandler(tools));
  return createServer((req, res) => {
    const path = req.url?.split('?')[0];
    if (path === '/mcp') void handler(req as NodeIncomingMessageLike, res);
    else res.writeHead(path === '/sandbox/health' ? 200 : 404).end();
  });
}

function tools(): McpServer {
  const server = new McpServer({ name: 'sandbox', version: '1.0.0' });
  server.registerTool(
    'echo',
    { description: 'Says again what it is told.', inputSchema: z.object({ text: z.string() }) },
    ({ text }) => said(text),
  );
  server.registerTool(
    'add',
    {
      description: 'Adds two numbers.',
      inputSchema: z.object({ a: z.number(), b: z.number() }),
    },
    ({ a, b }) => said(String(a + b)),
  );
  server.registerTool(
    'slow',
    {
      description: 'Answers after a while.',
      inputSchema: z.object({ ms: z.int().min(0).max(SLOW_MS_MAX) }),
    },
    async ({ ms }) => {
      await sleep(ms);
      return said('at last');
    },
  );
  return server;
}

function said(text: string) {
  return { content: [{ type: 'text' as const, text }] };
}

/** Run as a program. */
export async function main(): Promise<void> {
  const given = Number(process.env.SANDBOX_MCP_PORT ?? 8094);
  const port = await listen(createMcpServer(), given, { host: '127.0.0.1', name: 'SANDBOX_MCP' });
  // In this process too: another one would cost as much memory again.
  await openReceivers();
  process.stdout.write(`sandbox MCP server on http://127.0.0.1:${port}/mcp\n`);
}

/** Who is told of things, if the ports are named. */
async function openReceivers(): Promise<void> {
  const { SANDBOX_NOTICES_PORT: port, SANDBOX_SMTP_PORT: smtp_port } = process.env;
  if (port === undefined || smtp_port === undefined) return;
  const receiver = createReceiver();
  const where = { host: '127.0.0.1', name: 'SANDBOX_NOTICES' };
  await listen(createReceiverServer(receiver), Number(port), where);
  createMailServer(receiver).listen(Number(smtp_port), '127.0.0.1');
}
