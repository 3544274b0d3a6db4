import type { AppError } from '../../../domain/errors';
import { createArrivals } from '../../../gateway/call/arrivals';
import { renamed } from '../../../gateway/families/forms';
import type { ClientRequest } from '../../../gateway/families/request';
import { transcriptions } from '../../../gateway/families/table';
import { pick, type Random, randomOf, seed } from '../../support/random';
import { wav } from './sound-forms';
import { refusalOf, take } from './taken';

const type = 'multipart/form-data; boundary=b0undary';
const sound = wav(1);

/** A form of parts with these heads. */
function form(parts: [head: string, value: string | Buffer][], before = '', behind = ''): Buffer {
  const chunks = parts.flatMap(([head, value]) => [
    Buffer.from(`--b0undary\r\n${head}\r\n\r\n`),
    Buffer.from(value),
    Buffer.from('\r\n'),
  ]);
  return Buffer.concat([Buffer.from(before), ...chunks, Buffer.from(`--b0undary--${behind}`)]);
}

const disposition = (text: string) => `Content-Disposition: ${text}`;
const model: [string, string] = [disposition('form-data; name="model"'), 'whisper-1'];
const file: [string, Buffer] = [
  `${disposition('form-data; name="file"; filename="a.wav"')}\r\nContent-Type: audio/wav`,
  sound,
];

/** A form whose file, or model, has another head. */
const withFile = (head: string) => form([[head, sound], model]);
const withModel = (head: string) => form([file, [head, 'whisper-1']]);

test.each<[string, Buffer]>([
  [
    'of the official .NET client',
    form([
      [
        `Content-Type: audio/wav\r\n${disposition("form-data; name=file; filename=a.wav; filename*=utf-8''a.wav")}`,
        sound,
      ],
      [
        `Content-Type: text/plain; charset=utf-8\r\n${disposition('form-data; name=model')}`,
        'whisper-1',
      ],
    ]),
  ],
  [
    'with quotes in a name',
    withFile(disposition('form-data; name="file"; filename="a \\"b\\".wav"')),
  ],
  ['with the parameters turned', withFile(disposition('form-data; filename="a.wav"; name="file"'))],
  ['without a blank', withModel(disposition('form-data;name="model"'))],
  ['without any blank', withModel('content-disposition:form-data;name=model')],
  ['in capitals', withModel('CONTENT-DISPOSITION: FORM-DATA; NAME="model"')],
  ['with a folded head', withModel('Content-Disposition: form-data;\r\n name="model"')],
  [
    'with more lines in a head',
    withModel(`X-A: b\r\n${disposition('form-data; name="model"')}\r\nContent-Length: 9`),
  ],
  [
    'with letters of the world in a name',
    withFile(disposition('form-data; name="file"; filename="größe.wav"')),
  ],
  [
    'with a name in percents',
    withFile(disposition('form-data; name="file"; filename*=UTF-8\'\'gr%C3%B6%C3%9Fe.wav')),
  ],
  [
    'with a semicolon in a name',
    withFile(disposition('form-data; name="file"; filename="a;name=b.wav"')),
  ],
  ['with a preamble', form([file, model], 'This is a form.\r\nOf two parts.\r\n')],
  ['with an empty line ahead', form([file, model], '\r\n')],
  ['with an epilogue', form([file, model], '', '\r\nThat was a form.')],
  ['with the line of its end', form([file, model], '', '\r\n')],
  ['with its model first', form([model, file])],
])('a form %s is taken, and its bytes go on unchanged', async (_, bytes) => {
  const request = await take(bytes, transcriptions, type);
  expect(request.model).toBe('whisper-1');
  expect(request.outgoing.bytes.equals(bytes)).toBe(true);
  const other = await take(renamed(request.outgoing, 'another-model'), transcriptions, type);
  expect(other.model).toBe('another-model');
  expect(other.raw.length).toBe(bytes.length + 'another-model'.length - 'whisper-1'.length);
});

test('the file is the file, to the byte', async () => {
  let taken: { bytes: Uint8Array; name?: string; type?: string } | undefined;
  const awkward = Buffer.from('\r\n--b0undar\r\n\r\n--\r\n\0\xff', 'latin1');
  const given: [string, Buffer] = [
    `${disposition('form-data; name="file"; filename="C:\\\\a \\"b\\".wav"')}\r\nContent-Type: Audio/X; a=b`,
    awkward,
  ];
  const lasts = async (file_given: typeof taken) => {
    taken = file_given;
    return 1;
  };
  const { Readable } = await import('node:stream');
  const req = Object.assign(Readable.from([form([given, model])]), {
    headers: { 'content-type': type },
  });
  const sender = { owner: 'key', org_id: 'org', bytes_max: 1_000, orgShare: () => 1_000 };
  const arrival = createArrivals().begin(sender);
  await transcriptions.read?.({
    req,
    arrival,
    audio_limit_bytes: 1_000,
    sound: { lasts },
  } as never);
  expect(Buffer.from(taken?.bytes ?? []).equals(awkward)).toBe(true);
  expect(taken).toMatchObject({ name: 'C:\\a "b".wav', type: 'audio/x' });
});

const head = (text: string) => withModel(disposition(text));

test.each<[string, Buffer]>([
  ['that is half', form([file, model]).subarray(0, 5_000)],
  ['without its end', form([file, model]).subarray(0, -2)],
  ['that goes on behind its end', Buffer.concat([form([file, model]), form([model])])],
  ['with a part behind its end', form([file, model], '', '\r\n--b0undary\r\nx')],
  [
    'of line feeds alone',
    Buffer.from(form([file, model]).toString('latin1').replaceAll('\r\n', '\n'), 'latin1'),
  ],
  ['with its boundary in the midst of a line', form([file, ['a: b', 'x--b0undary'], model])],
  ['with a longer boundary', form([file, model], '--b0undaryX\r\n')],
  [
    'with blanks behind its boundary',
    Buffer.from(
      form([file, model]).toString('latin1').replace('b0undary\r', 'b0undary \r'),
      'latin1',
    ),
  ],
  ['with a part without a head', form([file, model, ['', 'x']])],
  ['with a part of another kind', form([file, model, [disposition('attachment; name="x"'), 'x']])],
  ['with a part without a disposition', form([file, model, ['Content-Type: text/plain', 'x']])],
  ['with a head that is no head', form([file, model, ['name="x"', 'x']])],
  [
    'with two dispositions',
    head(`form-data; name="prompt"\r\n${disposition('form-data; name="model"')}`),
  ],
  ['with two names', head('form-data; name="prompt"; name="model"')],
  ['with two names, one in percents', head('form-data; name="prompt"; name*=utf-8\'\'model')],
  [
    'with a name in the quotes of another reader',
    withFile(disposition('form-data; name="file"; filename="x\\"; name=\\"model\\""')),
  ],
  ['with quotes that do not end', head('form-data; name="model')],
  ['without a name', head('form-data')],
  ['with an empty name', head('form-data; name=""')],
  [
    'that is encoded',
    withModel(`${disposition('form-data; name="model"')}\r\nContent-Transfer-Encoding: base64`),
  ],
  [
    'in another character set',
    form([file, [`${model[0]}\r\nContent-Type: text/plain; charset=utf-16le`, 'whisper-1']]),
  ],
  [
    'with a huge head',
    withModel(`${disposition('form-data; name="model"')}\r\nx: ${'x'.repeat(10_000)}`),
  ],
  ['with a huge name', head(`form-data; name="${'x'.repeat(10_000)}"`)],
  [
    'with thousands of parts',
    form([
      file,
      model,
      ...Array.from({ length: 5_000 }, (_, n): [string, string] => [
        disposition(`form-data; name="x${n}"`),
        '',
      ]),
    ]),
  ],
  ['with the same file twice', form([file, file, model])],
  ['with the same text twice', form([file, model, model])],
  ['with a model that is a file', withModel(disposition('form-data; name="model"; filename="a"'))],
])('a form %s is refused with words', async (_, bytes) => {
  const { status, error } = await refusalOf(take(bytes, transcriptions, type));
  expect(status).toBe(400);
  expect(error.message).toMatch(/\w+ \w+ \w+/);
});

test.each(['"\\', '; name=', '  ', ';\t', '\\"', '""', ';name="'])(
  'a head of many times %j is read once, and refused',
  async (text) => {
    const long = disposition(`form-data; ${text.repeat(7_000 / text.length)}`);
    const { status } = await refusalOf(take(form([file, model, [long, '']]), transcriptions, type));
    expect(status).toBe(400);
  },
);

test('a file that is sent as a text is missing', async () => {
  const { status, error } = await refusalOf(
    take(withFile(disposition('form-data; name="file"')), transcriptions, type),
  );
  expect({ status, param: error.param }).toEqual({ status: 422, param: 'file' });
});

interface Made {
  bytes: Buffer;
  texts: Record<string, string>;
}

/** A form of random parts, orders, spellings and surroundings. */
function randomForm(random: Random): Made {
  const word = () =>
    pick(random, ['a', 'é b', '"', '\r\n', '--', '=;', '\0', '--b0undar', 'x'.repeat(70_000)]);
  const names = ['prompt', 'language', 'temperature', 'user', 'é', 'x y'].filter(
    () => random() < 0.5,
  );
  const texts = Object.fromEntries(names.map((name) => [name, word() + word()]));
  const quote = () => (random() < 0.5 ? ' ' : '');
  const parts: [string, string | Buffer][] = [
    ...Object.entries({ ...texts, model: 'whisper-1' }).map(([name, value]): [string, string] => [
      `${pick(random, ['Content-Disposition:', 'content-disposition: '])}form-data;${quote()}name="${name}"`,
      value,
    ]),
    [
      disposition(
        `form-data; ${pick(random, ['name=file; filename=a', 'filename="\\"a"; name="file"'])}`,
      ),
      Buffer.from(word() + word(), 'latin1'),
    ],
  ];
  const shuffled = parts.map((part) => ({ part, at: random() })).sort((a, b) => a.at - b.at);
  const around = () => pick(random, ['', '', '\r\n', 'words\r\n']);
  const bytes = form(
    shuffled.map(({ part }) => part),
    around(),
    pick(random, ['', '\r\n', '\r\nwords']),
  );
  return { bytes, texts };
}

test('random forms are read as they were made; random damage is read alike by all, or refused', async () => {
  const random = randomOf(seed);
  for (let round = 0; round < 150; round += 1) {
    const { bytes, texts } = randomForm(random);
    const { body, outgoing } = await take(bytes, transcriptions, type);
    expect(body).toMatchObject({ ...texts, model: 'whisper-1' });
    expect(outgoing.bytes.equals(bytes)).toBe(true);
    const at = Math.floor(random() * bytes.length);
    const cut = Math.floor(random() * 40);
    const piece = Buffer.from(pick(random, ['\r\n', '--b0undary', '"', ';', 'name=', '\r\n\r\n']));
    const damaged = Buffer.concat([bytes.subarray(0, at), piece, bytes.subarray(at + cut)]);
    const read: ClientRequest | AppError = await take(damaged, transcriptions, type).catch(
      (error: AppError) => error,
    );
    if ('status' in read) expect([400, 404, 413, 415, 422]).toContain(read.status);
    else await alike(read);
  }
});

/** What the platform's own reader makes of a form that was taken, if it reads it. */
async function alike({ outgoing, body }: ClientRequest): Promise<void> {
  const { bytes, content_type = '' } = outgoing;
  const headers = { 'content-type': content_type };
  const response = new Response(new Uint8Array(bytes), { headers });
  const other = await response.formData().catch(() => undefined);
  if (other !== undefined) expect(other.get('model')).toBe(body.model);
}
