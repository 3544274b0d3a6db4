import { unified } from '../../../../gateway/families/table';
import { chatOverMessages } from '../../../../gateway/families/unified/messages';
import { plain_wire, refusalOf, take } from '../taken';

const pdf = Buffer.from('%PDF-1.7 and more').toString('base64');
const png = Buffer.from('\x89PNG', 'latin1').toString('base64');
const words = Buffer.from('Héllo').toString('base64');

async function sent(part: object): Promise<string> {
  const body = { model: 'claude-sonnet-4-5', messages: [{ role: 'user', content: [part] }] };
  return chatOverMessages.request(await take(body, unified), 'claude-sonnet-4-5', plain_wire);
}

async function blockOf(part: object): Promise<Record<string, unknown>> {
  return JSON.parse(await sent(part)).messages[0].content[0];
}

const picture = (url: string) => ({ type: 'image_url', image_url: { url } });
const file = (file_data: string) => ({ type: 'file', file: { file_data, filename: 'a' } });
const plain = (data: string) => ({ type: 'text', media_type: 'text/plain', data });

test.each<[string, string, string]>([
  [`data:image/png;base64,${png}`, 'image/png', png],
  [`data:image/png;charset=utf-8;base64,${png}`, 'image/png', png],
  [`DATA:IMAGE/PNG;BASE64,${png}`, 'image/png', png],
  [`data:image/jpeg;name="a.jpg"; base64,${png}`, 'image/jpeg', png],
  [`data:image/jpg;base64,${png}`, 'image/jpeg', png],
  [`data:image/webp;base64,${png.replaceAll('=', '%3D')}`, 'image/webp', png],
  [`data:image/png;base64,${png.replaceAll('=', '')}`, 'image/png', png],
  [`data:image/png;base64,${png.slice(0, 4)}\n${png.slice(4)}`, 'image/png', png],
  ['data:image/gif,GIF%00', 'image/gif', Buffer.from('GIF\0').toString('base64')],
])('the picture %j goes as its bytes', async (url, media_type, data) => {
  const source = { type: 'base64', media_type, data };
  expect(await blockOf(picture(url))).toEqual({ type: 'image', source });
});

test.each<[string, object]>([
  [
    `data:application/pdf;base64,${pdf}`,
    { type: 'base64', media_type: 'application/pdf', data: pdf },
  ],
  [
    `Data:Application/PDF;x=1;Base64,${pdf}`,
    { type: 'base64', media_type: 'application/pdf', data: pdf },
  ],
  [pdf, { type: 'base64', media_type: 'application/pdf', data: pdf }],
  [
    `data:application/octet-stream;base64,${pdf}`,
    { type: 'base64', media_type: 'application/pdf', data: pdf },
  ],
  [`data:text/plain;base64,${words}`, plain('Héllo')],
  [`data:;base64,${words}`, plain('Héllo')],
  [`data:text/markdown;charset="UTF-8";base64,${words}`, plain('Héllo')],
  ['data:text/plain;charset=iso-8859-1;base64,6Q==', plain('é')],
  ['data:text/plain;charset=iso-8859-1,%E9', plain('é')],
  ['data:,Hello%2C%20World', plain('Hello, World')],
  [words, plain('Héllo')],
  ['https://files.example/a.pdf', { type: 'url', url: 'https://files.example/a.pdf' }],
])('the file %j is a document', async (data, source) => {
  expect(await blockOf(file(data))).toEqual({ type: 'document', source });
});

test.each<[object]>([
  [picture('')],
  [picture('picture.png')],
  [picture('file:///etc/passwd')],
  [picture('javascript:alert(1)')],
  [picture('https://')],
  [picture(png)],
  [picture('data:image/png;base64')],
  [picture('data:image/png;base64,')],
  [picture('data:image/png;base64,a')],
  [picture('data:image/png;base64,***')],
  [picture(`data:image/tiff;base64,${png}`)],
  [picture(`data:text/plain;base64,${words}`)],
  [{ type: 'image_url', image_url: { url: 5 } }],
  [{ type: 'image_url' }],
  [file('')],
  [file('no Base64!')],
  [file(png)],
  [file(`data:image/png;base64,${png}`)],
  [file('data:text/plain;base64,/w==')],
  [file('data:text/plain;charset=constructor;base64,aGk=')],
  [{ type: 'file', file: { file_id: 'file-1' } }],
])('%j is nothing that can be sent there', async (part) => {
  const { status, error } = await refusalOf(sent(part) as never);
  const { code, param } = error;
  expect({ status, code, param }).toEqual({
    status: 422,
    code: 'invalid_field',
    param: 'messages[0].content[0]',
  });
});

test('a mark of the cache stays at its picture', async () => {
  const cache_control = { type: 'ephemeral' };
  const part = { ...picture('https://pictures.example/a.png'), cache_control };
  expect(await blockOf(part)).toMatchObject({ type: 'image', cache_control });
});
