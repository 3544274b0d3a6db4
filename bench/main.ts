import { cpus } from 'node:os';
import { startCluster } from './cluster';
import { gatewayRows } from './gateway';
import { growthRow } from './growth';
import { httpLedgerRow } from './http-ledger';
import { ledgerRow } from './ledger';
import { limitRows } from './limits';
import { mcpRow } from './mcp';
import { memoryRow } from './memory';
import { paymentRows } from './payments';
import { policyRow } from './policy';
import { socketRow } from './sockets';
import { ticketRows } from './tickets';

/** One bar: what was measured, as a ratio within this run. */
export interface Row {
  measure: string;
  figure: string;
  ratio: number;
  bar: string;
  isMet: boolean;
}

const rows: Record<
  string,
  (parts: { cluster: Awaited<ReturnType<typeof startCluster>> }) => Promise<Row[]>
> = {
  ledger: async ({ cluster }) => [await ledgerRow(cluster)],
  http: async ({ cluster }) => [await httpLedgerRow(cluster)],
  gateway: ({ cluster }) => gatewayRows(cluster),
  sockets: async ({ cluster }) => [await socketRow(cluster)],
  mcp: async ({ cluster }) => [await mcpRow(cluster)],
  growth: async ({ cluster }) => [await growthRow(cluster)],
  tickets: ({ cluster }) => ticketRows(cluster),
  payments: ({ cluster }) => paymentRows(cluster),
  policy: async () => [await policyRow()],
  limits: () => limitRows(),
  memory: async ({ cluster }) => [await memoryRow(cluster)],
};

async function main(args: string[]): Promise<void> {
  const chosen = args.filter((arg) => !arg.startsWith('--'));
  const cluster = await startCluster();
  const measured: Row[] = [];
  try {
    for (const [name, measure] of Object.entries(rows)) {
      if (chosen.length === 0 || chosen.includes(name))
        measured.push(...(await measure({ cluster })));
    }
  } finally {
    await cluster.stop();
  }
  print(measured);
  if (args.includes('--check') && measured.some((row) => !row.isMet)) process.exitCode = 1;
}

function print(measured: Row[]): void {
  const cpu = cpus()[0]?.model ?? 'unknown processor';
  console.log(`${new Date().toISOString()}, Node ${process.version}, ${cpus().length} x ${cpu}\n`);
  console.log('| Measure | Figure | Ratio | Bar | |\n|---|---|---|---|---|');
  for (const { measure, figure, ratio, bar, isMet } of measured) {
    console.log(
      `| ${measure} | ${figure} | ${ratio.toFixed(2)} | ${bar} | ${isMet ? 'met' : 'MISSED'} |`,
    );
  }
}

void main(process.argv.slice(2));
