import { cpus } from 'node:os';
import { aloneRows, pacedRow } from './alone';
import { aloneReserveRow } from './alone-reserve';
import { type BenchCluster, startCluster } from './cluster';
import { gatewayRows } from './gateway';
import { growthRow } from './growth';
import { httpLedgerRow } from './http-ledger';
import { type Installation, openInstallation } from './installation';
import { ledgerRow } from './ledger';
import { limitRows } from './limits';
import { mcpRow } from './mcp';
import { memoryRow } from './memory';
import { neighbourRow } from './neighbours';
import { paymentRows } from './payments';
import { policyRow } from './policy';
import type { Row } from './row';
import { socketRow } from './sockets';
import { streamRow } from './streams';
import { ticketRows } from './tickets';

/** In one installation: its start costs half a minute, and none of them leaves much work behind. */
const shared: Record<string, (installation: Installation) => Promise<Row[]>> = {
  alone: aloneRows,
  paced: async (installation) => [await pacedRow(installation)],
  streams: async (installation) => [await streamRow(installation)],
  gateway: gatewayRows,
};

const rows: Record<string, () => Promise<Row[]>> = {
  ledger: inCluster(async (cluster) => [await ledgerRow(cluster)]),
  reserve: inCluster(async (cluster) => [await aloneReserveRow(cluster)]),
  http: inCluster(async (cluster) => [await httpLedgerRow(cluster)]),
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

async function inInstallation(
  measures: readonly ((installation: Installation) => Promise<Row[]>)[],
): Promise<Row[]> {
  if (measures.length === 0) return [];
  const measured = inCluster(async (cluster) => {
    const installation = await openInstallation(cluster);
    const all: Row[] = [];
    try {
      for (const measure of measures) all.push(...(await measure(installation)));
      return all;
    } finally {
      await installation.stop();
    }
  });
  return measured();
}

export async function main(args: string[]): Promise<void> {
  const chosen = args.filter((arg) => !arg.startsWith('--'));
  const wanted = <Measure>(all: Record<string, Measure>) =>
    Object.entries(all).filter(([name]) => chosen.length === 0 || chosen.includes(name));
  const measured = await inInstallation(wanted(shared).map(([, measure]) => measure));
  for (const [, measure] of wanted(rows)) measured.push(...(await measure()));
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
