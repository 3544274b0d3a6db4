import { root } from '../runtime/root';
import { aloneReserveRow } from './alone-reserve';
import { aloneRows, pacedRow } from './calls/alone';
import { budgetRow } from './calls/budgets';
import { consoleRow } from './calls/console';
import { costRow } from './calls/costs';
import { gatewayRows } from './calls/gateway';
import { gatewayPollRow } from './calls/gateway-polls';
import { type Installation, openInstallation } from './calls/installation';
import { mcpRow } from './calls/mcp';
import { partsRows } from './calls/parts';
import { providerRows } from './calls/providers';
import { socketRow } from './calls/sockets';
import { spendRows } from './calls/spend';
import { streamRow } from './calls/streams';
import { type BenchCluster, startCluster } from './cluster';
import { exportRows } from './exports';
import { before, type Figures, keptFigures, machine, record, versionsOf } from './figures';
import { growthRow } from './growth';
import { httpLedgerRow } from './http-ledger';
import { idleRow } from './idle';
import { ledgerRow } from './ledger';
import { limitRows } from './limits';
import { memoryRows } from './memory';
import { neighbourRow } from './neighbours';
import { policyRow } from './policy';
import { priceImportRow } from './prices/imports';
import { measured_folder } from './programs';

import type { Row } from './row';
import { ticketRows } from './tickets';
import { noticeRows } from './workflows/notices';
import { paymentRows } from './workflows/payments';

/** In one installation: its start costs half a minute, and none of them leaves much work behind. */
const shared: Record<string, (installation: Installation) => Promise<Row[]>> = {
  alone: aloneRows,
  paced: async (installation) => [await pacedRow(installation)],
  streams: async (installation) => [await streamRow(installation)],
  gateway: gatewayRows,
  cost: async (installation) => [await costRow(installation)],
  parts: partsRows,
};

/** Each in an installation or a process of its own that the measured folder's programs are. */
const apart: Record<string, () => Promise<Row[]>> = {
  sockets: inCluster(async (cluster) => [await socketRow(cluster)]),
  mcp: inCluster(async (cluster) => [await mcpRow(cluster)]),
  memory: inCluster(memoryRows),
  idle: async () => [await idleRow()],
};

/** These run code of this folder in the bench's own processes. */
const inside: Record<string, () => Promise<Row[]>> = {
  ledger: inCluster(async (cluster) => [await ledgerRow(cluster)]),
  reserve: inCluster(async (cluster) => [await aloneReserveRow(cluster)]),
  budgets: inCluster(async (cluster) => [await budgetRow(cluster)]),
  spend: inCluster(spendRows),
  http: inCluster(async (cluster) => [await httpLedgerRow(cluster)]),
  growth: inCluster(async (cluster) => [await growthRow(cluster)]),
  tickets: inCluster(ticketRows),
  exports: inCluster(exportRows),
  prices: inCluster(async (cluster) => [await priceImportRow(cluster)]),
  neighbours: inCluster(async (cluster) => [await neighbourRow(cluster)]),
  payments: inCluster(paymentRows),
  notices: inCluster(noticeRows),
  console: inCluster(async (cluster) => [await consoleRow(cluster)]),
  'gateway-polls': inCluster(async (cluster) => [await gatewayPollRow(cluster)]),
  policy: async () => [await policyRow()],
  providers: providerRows,
  limits: limitRows,
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
  shown: (rows: readonly Row[]) => void,
): Promise<void> {
  if (measures.length === 0) return;
  await inCluster(async (cluster) => {
    const installation = await openInstallation(cluster);
    try {
      for (const measure of measures) shown(await measure(installation));
      return [];
    } finally {
      await installation.stop();
    }
  })();
}

export async function main(args: string[]): Promise<void> {
  const chosen = args.filter((arg) => !arg.startsWith('--'));
  const wanted = <Measure>(all: Record<string, Measure>) =>
    Object.entries(all).filter(([name]) => chosen.length === 0 || chosen.includes(name));
  const kept = keptFigures();
  printHead(kept);
  const measured: Row[] = [];
  const shown = (found: readonly Row[]) => {
    for (const row of found) print(kept, row);
    measured.push(...found);
  };
  await inInstallation(
    wanted(shared).map(([, measure]) => measure),
    shown,
  );
  const rows = measured_folder === root ? { ...apart, ...inside } : apart;
  for (const [, measure] of wanted(rows)) shown(await measure());
  if (args.includes('--record')) record(measured);
  if (args.includes('--check') && measured.some((row) => !row.isMet)) process.exitCode = 1;
}

function printHead(kept: Figures): void {
  const versions = versionsOf(kept);
  const columns = ['Measure', 'Figure', 'Ratio', ...versions, 'Bar', ''];
  console.log(`${new Date().toISOString()}, ${machine()}\n`);
  console.log(`| ${columns.join(' | ')} |\n${'|---'.repeat(columns.length)}|`);
}

/** As soon as it is measured, beside the versions before: the whole takes minutes. */
function print(kept: Figures, row: Row): void {
  const { measure, figure, ratio, bar, isMet } = row;
  const met = bar === undefined ? '' : isMet ? 'met' : 'MISSED';
  const cells = [measure, figure, ratio?.toFixed(2) ?? '', ...before(kept, row), bar ?? '', met];
  console.log(`| ${cells.join(' | ')} |`);
}
