import type { IncomingMessage } from 'node:http';
import { AppError } from '../../domain/errors';
import { checkName } from '../wire/members';
import { readBytes } from '../wire/read';
import type { Body } from '../wire/values';
import type { Outgoing } from './request';

/** A multipart form: its texts by name, its one file, and its bytes as they came. */
interface Form {
  fields: Body;
  file: File;
  outgoing: Outgoing;
}

const FIELDS_MAX = 100;
const multipart = /^multipart\/form-data\s*;.*\bboundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))/i;

/**
 * Reads a form of texts and one file. Names that end in `[]` may come several times and make a
 * list.
 */
export async function readForm(req: IncomingMessage, limit: number): Promise<Form> {
  const type = req.headers['content-type'] ?? '';
  const boundary = multipart.exec(type);
  if (boundary === null || type.match(/boundary=/gi)?.length !== 1) {
    throw new AppError(
      'unsupported_media_type',
      'Send the body as content-type multipart/form-data, with its boundary.',
    );
  }
  const bytes = await readBytes(req, limit);
  const delimiter = `--${boundary[1] ?? boundary[2]}`;
  checkParts(bytes, delimiter);
  const form = await parse(bytes, type);
  const fields: Body = {};
  let file: File | undefined;
  for (const [name, value] of form) {
    if (typeof value !== 'string') {
      if (name !== 'file' || file)
        throw broken(`It holds a file "${name}", besides or beyond "file".`);
      file = value;
    } else add(fields, name, value);
  }
  if (file === undefined) {
    throw new AppError('invalid_field', 'Send the sound as the part "file".', { param: 'file' });
  }
  const outgoing = { bytes, spans: new Map(), content_type: type, delimiter };
  return { fields, file, outgoing };
}

/** The same form with another model, in the place of the one that it names. */
export function renamed({ bytes, delimiter = '' }: Outgoing, model: string): Buffer {
  for (let at = bytes.indexOf(delimiter); at >= 0; ) {
    const next = bytes.indexOf(`\r\n${delimiter}`, at);
    const head_end = bytes.indexOf('\r\n\r\n', at);
    if (next < 0 || head_end < 0) break;
    const head = bytes.subarray(at, head_end).toString('latin1');
    if (/^content-disposition:[^\r\n]*;\s*name="?model"?\s*(;|$)/im.test(head)) {
      const before = bytes.subarray(0, head_end + 4);
      return Buffer.concat([before, Buffer.from(model), bytes.subarray(next)]);
    }
    at = next + 2;
  }
  throw broken('Its part "model" has a form that cannot be changed.');
}

/** Ahead of the parser, which takes its time for hundreds of thousands of parts. */
function checkParts(bytes: Buffer, delimiter: string): void {
  let at = -1;
  for (let parts = 0; parts <= FIELDS_MAX + 2; parts += 1) {
    at = bytes.indexOf(delimiter, at + 1);
    if (at < 0) return;
  }
  throw broken(`It has over ${FIELDS_MAX} parts.`);
}

async function parse(bytes: Buffer, type: string): Promise<FormData> {
  try {
    // The platform's own reader, of the fetch standard.
    return await new Response(new Uint8Array(bytes), {
      headers: { 'content-type': type },
    }).formData();
  } catch {
    throw broken('Its parts cannot be told apart.');
  }
}

function add(fields: Body, name: string, value: string): void {
  checkName(name);
  if (Object.keys(fields).length >= FIELDS_MAX) throw broken(`It has over ${FIELDS_MAX} parts.`);
  if (name.endsWith('[]')) {
    const list = (fields[name] ?? []) as string[];
    fields[name] = [...list, value];
  } else if (Object.hasOwn(fields, name)) {
    throw new AppError('invalid_request', `The form names "${name}" twice.`, { param: name });
  } else {
    Object.defineProperty(fields, name, { value, enumerable: true });
  }
}

function broken(why: string): AppError {
  return new AppError('invalid_request', `The body is not a form as this route takes it. ${why}`);
}
