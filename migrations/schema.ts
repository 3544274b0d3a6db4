import type { Knex } from 'knex';
import {
  type Attached,
  type Catalogue,
  type Column,
  type Constraint,
  readCatalogue,
  type StoredFunction,
  type Table,
  type Type,
} from './catalogue';
import { baseName, type Remarks, readRemarks } from './remarks';
import { declaration, inLines, parameters, plain, remark, typeName } from './wording';

/**
 * The nouns of schema.sql in their order, each with the migrations that made what belongs to it.
 */
const sections: readonly { title: string; files: readonly string[] }[] = [
  { title: 'Organizations, people, teams and agents', files: ['0001', '0070', '0071', '0072'] },
  {
    title: 'Identity providers and what their subjects are bound to',
    files: ['0067', '0113', '0126', '0143'],
  },
  { title: 'Keys', files: ['0002', '0038', '0055', '0068', '0087', '0119', '0124', '0144'] },
  { title: 'Events and messages to workflows', files: ['0003', '0014', '0034', '0048'] },
  { title: 'Wallets and the ledger', files: ['0004', '0039', '0059', '0120', '0140', '0141'] },
  { title: 'Imports of prices', files: ['0096'] },
  { title: 'Prices', files: ['0005', '0024'] },
  { title: 'Keys of providers', files: ['0097'] },
  {
    title: 'Reservations',
    files: [
      '0006',
      '0011',
      '0020',
      '0022',
      '0025',
      '0026',
      '0037',
      '0047',
      '0051',
      '0057',
      '0075',
      '0080',
      '0098',
      '0099',
      '0104',
      '0106',
    ],
  },
  { title: 'Stored ids', files: ['0028', '0131'] },
  { title: 'Caps on agents', files: ['0008', '0058', '0134'] },
  { title: 'Budgets', files: ['0073', '0074', '0078', '0121'] },
  { title: 'What calls cost', files: ['0081', '0082', '0115'] },
  {
    title: 'Cost tickets',
    files: [
      '0010',
      '0012',
      '0013',
      '0019',
      '0023',
      '0035',
      '0045',
      '0046',
      '0049',
      '0054',
      '0076',
      '0077',
      '0108',
      '0114',
      '0118',
      '0122',
      '0123',
      '0125',
      '0135',
    ],
  },
  { title: 'Payments', files: ['0015', '0016', '0031', '0056'] },
  { title: 'Refunds', files: ['0017', '0032', '0133', '0145', '0146'] },
  { title: 'Notices', files: ['0085', '0086', '0093', '0094', '0102', '0127'] },
  { title: 'Gateways', files: ['0018', '0066'] },
  { title: 'The proof', files: ['0007', '0083', '0128'] },
  { title: 'Exports', files: ['0061', '0062', '0063', '0092', '0103', '0116'] },
  { title: 'Who changed what', files: ['0040', '0050', '0089', '0090', '0091', '0117'] },
  { title: 'Money for owners who are there', files: ['0041'] },
];

// What a migration made though it belongs to another noun.
const elsewhere: Record<string, string> = {
  'table team_removals': '0070',
  'function archive_organization': '0070',
  'function unarchive_organization': '0070',
  'function decider_refusal': '0013',
  'table cost_tickets': '0010',
  'function open_ticket': '0010',
  'function leaver_refusal': '0010',
  'function notify_waiters_of_team': '0010',
  'function keep_waiter_trace': '0010',
  'function caller_of_hold': '0006',
  'function lowering_call': '0006',
  'function append_threshold': '0073',
  'function emit_refusal': '0073',
  'function untold_keys': '0086',
  'function record_verdict': '0089',
};

const head = `-- The schema as it stands after the last migration, to be read. No start applies it, and nobody edits
-- it: \`npm run schema\` writes it from the migrations, and a test says when it is stale.

set check_function_bodies = off;
`;

/** The text of schema.sql for a migrated database. */
export async function schemaText(db: Knex): Promise<string> {
  const catalogue = await readCatalogue(db);
  const remarks = await readRemarks();
  const parts = partsOf(catalogue, remarks);
  const texts = sections.map(({ title, files }) => {
    const own = parts.filter(({ origin }) => files.includes(origin));
    const about = remark(files.map((file) => headOf(remarks, file)).find(Boolean));
    const line = '-'.repeat(100);
    const texts = own.sort((a, b) => a.rank - b.rank || a.place - b.place).map(({ text }) => text);
    return [`${line}\n-- ${title}\n${line}\n${about && `\n${about}`}`, ...texts].join('\n');
  });
  return [head, ...texts].join('\n');
}

interface Part {
  /** The number of the migration whose section it stands in. */
  origin: string;
  /** What stands earlier in its section is needed by what stands later. */
  rank: number;
  place: number;
  text: string;
}

function partsOf(catalogue: Catalogue, remarks: Remarks): Part[] {
  const part = (key: string, rank: number, text: string): Part => {
    const base = baseName(key);
    const origin = elsewhere[base] ?? remarks.origins.get(base)?.slice(0, 4) ?? '';
    if (!sections.some(({ files }) => files.includes(origin)))
      throw new Error(`Migration ${origin} has no section: name one in migrations/schema.ts.`);
    const place = remarks.places.get(key) ?? 0;
    return { origin, rank, place, text: remark(remarks.comments.get(key)) + text };
  };
  const { tables, types, functions } = catalogue;
  return [
    ...functions.map((row) =>
      part(
        `function ${row.name}`,
        row.is_default ? 0 : 2,
        functionText(row) + attachedTexts(catalogue.triggers, row.name, 'trigger', remarks),
      ),
    ),
    ...tables.map((row) => part(`table ${row.name}`, 1, tableText(row, catalogue, remarks))),
    ...types.map((row) => part(`type ${row.name}`, 2, typeText(row, remarks))),
  ];
}

function headOf(remarks: Remarks, file: string): string | undefined {
  for (const [name, text] of remarks.heads) if (name.startsWith(file)) return text;
  return undefined;
}

function tableText(table: Table, catalogue: Catalogue, remarks: Remarks): string {
  const { name, partition_of } = table;
  if (partition_of !== null) return `create table ${name} partition of ${partition_of} default;\n`;
  const own = catalogue.constraints.filter((row) => row.table === name);
  const columns = catalogue.columns.filter((row) => row.table === name);
  const isInline = (row: Constraint) => inlineText(row) !== undefined;
  const lines = [
    ...columns.map((column) => ({
      name: column.name,
      text: columnText(
        column,
        own.filter((row) => isInline(row) && row.column === column.name),
      ),
    })),
    ...own
      .filter((row) => !isInline(row))
      .map((row) => ({ name: row.name, text: `constraint ${row.name} ${plain(row.text)}` })),
  ];
  const options = table.options.map((option) => option.replace('=', ' = ')).join(', ');
  const end = [
    ')',
    table.partition_key && ` partition by ${plain(table.partition_key)}`,
    options && ` with (${options})`,
    ';\n',
  ];
  return (
    `create table ${name} (\n${members(name, lines, remarks)}${end.filter(Boolean).join('')}` +
    attachedTexts(catalogue.indexes, name, 'index', remarks)
  );
}

function members(owner: string, lines: { name: string; text: string }[], remarks: Remarks): string {
  return lines
    .map(({ name, text }, index) => {
      const about = remark(
        remarks.comments.get(`column ${owner}.${name.replaceAll('"', '')}`),
        '  ',
      );
      const comma = index < lines.length - 1 ? ',' : '';
      return about + declaration(text + comma, '  ');
    })
    .join('');
}

function columnText(column: Column, constraints: Constraint[]): string {
  const key = constraints.find(({ kind }) => kind === 'p');
  const first = [
    column.name,
    typeName(column.type),
    column.is_identity && 'generated always as identity',
    key && 'primary key',
    column.not_null && !key && !column.is_identity && 'not null',
    column.default !== null && `default ${plain(column.default).replace(`::${column.type}`, '')}`,
  ];
  const rest = constraints.filter((row) => row !== key).map(inlineText);
  return inLines([first.filter(Boolean).join(' '), ...rest.filter((text) => text !== undefined)]);
}

/**
 * How a constraint is written beside its column; undefined if it is about more, or has a name of
 * its own.
 */
function inlineText({ table, name, kind, column, text }: Constraint): string | undefined {
  if (column === null) return undefined;
  const words = plain(text);
  if (kind === 'p' && name === `${table}_pkey`) return 'primary key';
  if (kind === 'u' && name === `${table}_${column}_key`) return 'unique';
  if (kind === 'c' && name === `${table}_${column}_check`) return words;
  const [, target] = /^foreign key \(\w+\) references (\w+)\(\w+\)$/.exec(words) ?? [];
  return target && name === `${table}_${column}_fkey` ? `references ${target}` : undefined;
}

function attachedTexts(
  all: Attached[],
  of: string,
  kind: 'index' | 'trigger',
  remarks: Remarks,
): string {
  return all
    .filter((row) => row.of === of)
    .map(({ name, text }) => {
      const about = remark(remarks.comments.get(`${kind} ${name}`));
      return `${kind === 'trigger' ? '\n' : ''}${about}${declaration(clauses(`${plain(text)};`))}`;
    })
    .join('');
}

/** An index or trigger with its clauses in lines of their own, if one line cannot hold them. */
function clauses(text: string): string {
  return inLines(text.split(/ (?=where |for each row |execute function )/));
}

function typeText({ name, members: own }: Type, remarks: Remarks): string {
  const lines = own.map((member) => ({
    name: member.name,
    text: `${member.name} ${typeName(member.type)}`,
  }));
  return `create type ${name} as (\n${members(name, lines, remarks)});\n`;
}

const volatility = { i: ' immutable', s: ' stable', v: '' };

const USUAL_COST = 100;

function functionText(row: StoredFunction): string {
  const { name, given, result, language, settings, text } = row;
  const set = settings.map((setting) => {
    const [, member, value = ''] = /^(\w+)=(.*)$/.exec(setting) ?? [];
    return `set ${member} = ${/^[a-z_]+$/.test(value) ? value : `'${value}'`}`;
  });
  const cost = row.cost === USUAL_COST ? '' : ` cost ${row.cost}`;
  const about = `returns ${plain(result)} language ${language}${volatility[row.volatility]}${cost}`;
  const first = inLines([
    `create function ${name}(${parameters(plain(given))})`,
    ...(set.length > 0 ? [about, `${set.join(' ')} as $$`] : [`${about} as $$`]),
  ]);
  return `${declaration(first).trimEnd()}${text}$$;\n`;
}
