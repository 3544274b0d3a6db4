import { cpus } from 'node:os';
import { aloneReserveRow } from './alone-reserve';
import { type BenchCluster, startCluster } from './cluster';
import { gatewayRows } from './gateway';
import { growthRow } from './growth';
import { httpLedgerRow } from './http-ledger';
import { ledgerRow } from './ledger';
import { limitRows } from './limits';
import { mcpRow } from './mcp';
import { memoryRow } from './memory';
import { neighbourRow } from './neighbours';
import { paymentRows } from './payments';
import { policyRow } from './policy';
import type { Row } from './row';
import { socketRow } from './sockets';
import { ticketRows } from './tickets';

const rows: Record<string, () => Promise<Row[]>> = {
  ledger: inCluster(async (cluster) => [await ledgerRow(cluster)]),
  reserve: inCluster(async (cluster) => [await aloneReserveRow(cluster)]),
  http: inCluster(async (cluster) => [await httpLedgerRow(cluster)]),
  gateway: inCluster(gatewayRows),
  sockets: inCluster(async (cluster) => [await socketRow(cluster)]),
  mcp: inCluster(async (cluster) => [await mcpRow(cluster)]),
  growth: inCluster(async (cluster) => [await growthRow(cluster)]),
  tickets: inCluster(ticketRows),
  neighbours: inCluster(async (cluster) => [await neighbourRow(cluster)]),
  payments: inCluster(paymentRows),
  policy: async () => [await policyRow()],
  limits: limitRows,
  memory: inCluster(async (cluster) => [await memoryRow(cluster)]),
};

/**
 * In a server of its own: the vacuum and checkpoints of earlier rows would count as this one's
 * work.
 */
function inCluster(measure: (cluster: BenchCluster) => Promise<Row[]>): () => Promise<Row[]> {
  return async () => {
    const cluster = await startCluster();
    try {
      return await measure(cluster);
    } finally {
      await cluster.stop();
    }
  };
}

export async function main(args: string[]): Promise<void> {
  const chosen = args.filter((arg) => !arg.startsWith('--'));
  const measured: Row[] = [];
  for (const [name, measure] of Object.entries(rows)) {
    if (chosen.length === 0 || chosen.includes(name)) measured.push(...(await measure()));
  }
  print(measured);
  if (args.includes('--check') && measured.some((row) => !row.isMet)) process.exitCode = 1;
}

function print(measured: Row[]): void {
  const cpu = cpus()[0]?.model ?? 'unknown processor';
  console.log(`${new Date().toISOString()}, Node ${process.version}, ${cpus().length} x ${cpu}\n`);
  console.log('| Measure | Figure | Ratio | Bar | |\n|---|---|---|---|---|');
  for (const { measure, figure, ratio, bar, isMet } of measured) {
    const met = bar === undefined ? '' : isMet ? 'met' : 'MISSED';
    console.log(`| ${measure} | ${figure} | ${ratio?.toFixed(2) ?? ''} | ${bar ?? ''} | ${met} |`);
  }
}
