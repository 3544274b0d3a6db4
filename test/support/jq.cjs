// Stands in for jq on a machine without it: reads members along a path; any other filter gives its
// input as it came.
const { readFileSync } = require('node:fs');

const args = process.argv.slice(2);
const is_raw = args.includes('-r');
const [filter = '.', file] = args.filter((arg) => !/^-\w+$/.test(arg));
const text = readFileSync(file ?? 0, 'utf8');
const steps = filter.match(/^(\.\w*|\[\d*\])+$/) ? filter.match(/\w+|\[\]/g) : undefined;
let found = [steps === undefined ? undefined : JSON.parse(text)];
for (const step of steps ?? []) {
  found = found.flatMap((value) => (step === '[]' ? value : [value?.[step] ?? null]));
}
const shown = (value) =>
  is_raw && typeof value === 'string' ? value : JSON.stringify(value, null, 2);
process.stdout.write(
  steps === undefined && filter !== '.' ? text : `${found.map(shown).join('\n')}\n`,
);
