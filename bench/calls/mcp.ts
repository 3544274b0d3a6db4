import * as pricing from '../../domain/ledger/pricing';
import { openDatabase } from '../../runtime/database';
import type { BenchCluster } from '../cluster';
import { cpuMs } from '../cpu';
import { chatBody, sendMany } from '../load';
import type { Row } from '../row';
import { type Stack, startStack } from '../stack';

const CALLS = 4_000;
const WARM_UP = 2_000;
const ROUNDS = 2;
const IN_FLIGHT = 32;

const tool_call = JSON.stringify({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: {
    name: 'work',
    arguments: { text: 'Some words about nothing in particular. '.repeat(16) },
  },
});

/**
 * MCP call: CPU of the gateway for one priced call of a tool, against that of one priced chat
 * request.
 */
export async function mcpRow(cluster: BenchCluster): Promise<Row> {
  const stack = await startStack(cluster);
  try {
    await priceTools(stack);
    await round(stack, WARM_UP);
    const spent = { tool: 0, chat: 0 };
    for (let n = 0; n < ROUNDS; n += 1) {
      const { tool, chat } = await round(stack, CALLS);
      spent.tool += tool / ROUNDS;
      spent.chat += chat / ROUNDS;
    }
    const ratio = spent.tool / spent.chat;
    return {
      measure: 'MCP call: gateway CPU per priced tool call, 32 in flight',
      figure: `${spent.tool.toFixed(3)} ms against ${spent.chat.toFixed(3)} ms of a priced chat request`,
      ratio,
      bar: 'at most 1.25 x',
      isMet: ratio <= 1.25,
    };
  } finally {
    await stack.stop();
  }
}

async function round(stack: Stack, requests: number) {
  const spent = async (path: string, body: string): Promise<number> => {
    const before = cpuMs([stack.gateway.pid]);
    await sendMany({
      url: stack.gateway.url,
      path,
      body,
      requests,
      in_flight: IN_FLIGHT,
      headers: {
        authorization: `Bearer ${stack.gateway_key}`,
        accept: 'application/json, text/event-stream',
      },
    });
    return (cpuMs([stack.gateway.pid]) - before) / requests;
  };
  return {
    chat: await spent('/v1/chat/completions', chatBody),
    tool: await spent('/mcp', tool_call),
  };
}

async function priceTools({ database_url }: Stack): Promise<void> {
  const db = openDatabase(database_url, 1);
  await pricing.create(db, {
    ...pricing.blankPrice,
    provider: 'mcp',
    model: 'bench/*',
    per_request: 0.000001,
    effective_from: new Date(Date.now() - 60_000),
  });
  await db.destroy();
}
