import type { AppError } from '../../../domain/errors';
import type { ClientRequest } from '../../../gateway/families/request';
import { transcriptions } from '../../../gateway/families/table';
import { encode, good, type Part, wav } from './sound-forms';
import { refusalOf, take } from './taken';

function takeForm(
  body: Buffer,
  type = 'multipart/form-data; boundary=b0undary',
): Promise<ClientRequest> {
  return take(body, transcriptions, type);
}

const model: Part = { name: 'model', value: 'whisper-1' };
const file: Part = { name: 'file', value: wav(1), file: 'a.wav' };

test.each<[string, Part[], number, string | null]>([
  ['no model', [file], 422, 'model'],
  ['no file', [model], 422, 'file'],
  ['an empty file', [{ name: 'file', value: '', file: 'a.wav' }, model], 422, 'file'],
  ['two models', [file, model, { name: 'model', value: 'gpt-4o' }], 400, 'model'],
  ['the model in another spelling', [file, model, { name: 'Model', value: 'x' }], 400, 'Model'],
  ['a list of models', [file, model, { name: 'model[]', value: 'gpt-4o' }], 400, 'model[]'],
  [
    'very many parts',
    [file, ...Array.from({ length: 200 }, (_, n) => ({ name: `x${n}`, value: '' })), model],
    400,
    null,
  ],
  ['two files', [file, file, model], 400, null],
  ['a file of another name', [{ ...file, name: 'sound' }, model], 400, null],
  [
    'an unknown format',
    [file, model, { name: 'response_format', value: 'x' }],
    422,
    'response_format',
  ],
  ...['file_id', 'file_url', 'url', 'fileId', 'File_URL', 'url[]'].map(
    (name): [string, Part[], number, string] => [
      `a sound that lies elsewhere (${name})`,
      [file, model, { name, value: 'https://x.example/long.mp3' }],
      ...([422, name] as const),
    ],
  ),
  ['a stream that is neither', [file, model, { name: 'stream', value: '1' }], 422, 'stream'],
])('a form with %s is refused, and reaches nobody', async (_, parts, status, param) => {
  const refusal = await refusalOf(takeForm(encode(parts)));
  expect({ status: refusal.status, param: refusal.error.param }).toEqual({ status, param });
});

test.each<[string, Buffer, string | undefined, number]>([
  ['cut in the middle', encode(good).subarray(0, 300), undefined, 400],
  ['of another boundary', encode(good, 'other'), undefined, 400],
  ['empty', Buffer.alloc(0), undefined, 400],
  ['without a boundary', encode(good), 'multipart/form-data', 415],
  ['of two boundaries', encode(good), 'multipart/form-data; boundary=b0undary; boundary=b', 415],
  ['that is JSON', Buffer.from('{"model":"whisper-1"}'), 'application/json', 415],
])('a body %s is refused', async (_, body, type, status) => {
  expect(await refusalOf(takeForm(body, type))).toMatchObject({ status });
});

test('no prefix of a form passes for a form', async () => {
  const body = encode([{ ...file, value: 'RIFF' }, model]);
  for (let length = 0; length < body.length - 4; length += 7) {
    const { status } = await refusalOf(takeForm(body.subarray(0, length)));
    expect([length, status]).toEqual([length, 400]);
  }
});

test('a form with any byte changed is read or refused, and whatever is sent on is what was checked', async () => {
  const body = encode([{ ...file, value: 'RIFF and nothing more' }, model]);
  for (let at = 0; at < body.length; at += 3) {
    for (const byte of [0x00, 0x0a, 0x22, 0x2d, 0xff]) {
      const changed = Buffer.from(body);
      changed[at] = byte;
      const { request, status } = await takeForm(changed).then(
        (taken) => ({ request: taken, status: 200 }),
        (error: AppError) => ({ request: undefined, status: error.status }),
      );
      expect([at, byte, [200, 400, 404, 422].includes(status)]).toEqual([at, byte, true]);
      if (request === undefined) continue;
      // What a provider reads of the bytes that would be sent on, if it reads them at all.
      const { bytes, content_type = '' } = request.outgoing;
      const headers = { 'content-type': content_type };
      const form = new Response(new Uint8Array(bytes), { headers }).formData();
      const model = await form.then(
        (read) => read.get('model'),
        () => request.model,
      );
      expect(model).toBe(request.model);
    }
  }
});
