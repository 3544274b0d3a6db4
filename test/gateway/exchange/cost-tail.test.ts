import { CostTail } from '../../../gateway/exchange/cost-tail';
import { withCost } from '../../../gateway/stages/cost-member';

const line = { what: 'input', quantity: '1', unit_price: '0.5', amount: '0.5' };
const cost = { amount: '0.5', currency: 'USD', lines: [line] };
const members = `"cost":0.5,"cost_details":${JSON.stringify({ cost: '0.5', currency: 'USD', lines: [line] })}`;

test.each([
  ['{"usage":{}}', `{"usage":{${members}}}`],
  [
    '\ufeff { "usage" : { "a" : 1 } , "b" : [1, 2]}\n',
    `\ufeff { "usage" : { "a" : 1 ,${members}} , "b" : [1, 2]}\n`,
  ],
  ['{"usage":{"cost":1,"a":"}","cost_details":{"cost":2}}}', `{"usage":{"a":"}",${members}}}`],
  ['{"usage":{"cost":1,"cost":2}}', `{"usage":{${members}}}`],
  ['{"usage":null,"usage":{"a":1}}', `{"usage":null,"usage":{"a":1,${members}}}`],
  [
    '{"response":{"output":["usage"],"usage":{"a":1}}}',
    `{"response":{"output":["usage"],"usage":{"a":1,${members}}}}`,
  ],
])('the usage of %j gets the cost, and nothing else changes', (given, told) => {
  expect(withCost(given, cost)).toBe(told);
  expect(JSON.parse((withCost(given, cost) as string).trim().replace(/^\ufeff/, ''))).toBeDefined();
});

test.each([
  '{}',
  '{"usage":null}',
  '{"usage":[1]}',
  '{"a":{"usage":{}}}',
  '{"response":{"usage":3}}',
  '{"usage":{},"usage":7}',
])('of %j there is no usage to tell it in', (given) => {
  expect(withCost(given, cost)).toBeUndefined();
});

/** What a stream becomes whose answer has ended at its last chunk, and what passed at once. */
function told(pieces: readonly string[], known: typeof cost | null = cost) {
  const tail = new CostTail(
    () => true,
    60_000,
    () => undefined,
  );
  const passed = pieces.map((piece) => tail.push(Buffer.from(piece)).toString()).join('');
  return { passed, whole: passed + tail.end(known ?? undefined).toString() };
}

const chunk = '{"choices":[],"usage":{"a":1}}';
const costly = `{"choices":[],"usage":{"a":1,${members}}}`;

test.each([
  ['LF', 'data: X\n\ndata: [DONE]\n\n'],
  ['CRLF', 'data: X\r\n\r\ndata: [DONE]\r\n\r\n'],
  ['CR', 'data: X\r\rdata: [DONE]\r\r'],
  ['no space, a name and an id', 'event: e\nid: 1\ndata:X\n\n'],
  ['no end', 'data: X'],
])('an event with %s keeps its bytes around the cost, cut at each place', (_, text) => {
  const given = text.replace('X', chunk);
  const wanted = text.replace('X', costly);
  expect(told([given]).whole).toBe(wanted);
  expect(told([...given]).whole).toBe(wanted);
  for (let at = 1; at < given.length; at += 7)
    expect(told([given.slice(0, at), given.slice(at)]).whole).toBe(wanted);
  expect(told([given], null).whole).toBe(given);
});

test('data over several lines is told as an event that reads the same', () => {
  const { whole } = told(['event: e\ndata: {"choices":[],\ndata: "usage":{"a":1}}\n\n']);
  expect(whole).toBe(`event: e\ndata: {"choices":[],\ndata: "usage":{"a":1,${members}}}\n\n`);
});

test('all before the last usage passes at once, and of several usages the last has the cost', () => {
  const { passed, whole } = told([
    'data: {"a":1}\n\n',
    `data: ${chunk}\n\ndata: ${chunk}\n\n: x\n\n`,
  ]);
  expect(passed).toBe('data: {"a":1}\n\n');
  expect(whole).toBe(`data: {"a":1}\n\ndata: ${chunk}\n\ndata: ${costly}\n\n: x\n\n`);
});

test('without a usage there is a comment, before the mark of the end and before what is cut', () => {
  const comment = ': x-svc-cost 0.5 USD\n\n';
  expect(told(['data: {"a":1}\n\ndata: [DONE]\n\n']).whole).toBe(
    `data: {"a":1}\n\n${comment}data: [DONE]\n\n`,
  );
  expect(told(['data: {"a":1}\n\n']).whole).toBe(`data: {"a":1}\n\n${comment}`);
  expect(told(['data: {"a":1}\n\ndata: {"b"']).whole).toBe(`data: {"a":1}\n\n${comment}data: {"b"`);
});

test('what was held too long passes as it is, and nothing is said twice', async () => {
  const late = await new Promise<string>((resolve) => {
    const tail: CostTail = new CostTail(
      () => true,
      1,
      (bytes) =>
        resolve(
          `${bytes.toString()}|${tail.push(Buffer.from('data: [DONE]\n\n'))}|${tail.end(cost)}`,
        ),
    );
    tail.push(Buffer.from(`data: ${chunk}\n\n`));
  });
  expect(late).toBe(`data: ${chunk}\n\n|data: [DONE]\n\n|`);
});
