import type { IncomingMessage } from 'node:http';
import { AppError } from '../../domain/errors';
import { checkName } from '../wire/members';
import { broken, type Part, partsOf } from '../wire/multipart';
import { type Arrival, readBytes } from '../wire/read';
import type { Body } from '../wire/values';
import type { FormPart, Outgoing } from './request';

/** The one file of a form. */
interface FormFile {
  bytes: Buffer;
  name: string;
  type: string;
}

/** A multipart form: its texts by name, its one file, its bytes as they came, and its parts. */
interface Form {
  fields: Body;
  file: FormFile;
  outgoing: Outgoing;
  parts: FormPart[];
}

const FIELDS_MAX = 100;
const multipart = /^multipart\/form-data\s*;.*\bboundary=(?:"([^"\\]{1,70})"|([^\s;"]{1,70}))/i;

/**
 * Reads a form of texts and one file. Names that end in `[]` may come several times and make a
 * list.
 */
export async function readForm(
  req: IncomingMessage,
  limit: number,
  arrival: Arrival,
): Promise<Form> {
  const type = req.headers['content-type'] ?? '';
  const boundary = multipart.exec(type);
  if (boundary === null || type.match(/boundary=/gi)?.length !== 1) {
    throw new AppError(
      'unsupported_media_type',
      'Send the body as content-type multipart/form-data, with its boundary.',
    );
  }
  const bytes = await readBytes(req, limit, arrival);
  const parts = await partsOf(bytes, (boundary[1] ?? boundary[2]) as string, FIELDS_MAX + 1);
  const fields: Body = {};
  let file: FormFile | undefined;
  for (const part of parts) {
    if (part.text !== undefined) add(fields, part.name, part.text);
    else if (part.name !== 'file' || file !== undefined)
      throw broken(`It holds a file "${part.name}", besides or beyond "file".`);
    else file = fileOf(part, bytes);
  }
  if (file === undefined) {
    throw new AppError('invalid_field', 'Send the sound as the part "file".', { param: 'file' });
  }
  const outgoing: Outgoing = { bytes, spans: new Map(), content_type: type };
  const model = parts.find(({ name }) => name === 'model')?.place;
  if (model !== undefined) outgoing.form_model = model;
  return { fields, file, outgoing, parts: parts.map((part) => partOf(part, bytes)) };
}

/** The same form with another model, in the place of the one that it names. */
export function renamed({ bytes, form_model }: Outgoing, model: string): Buffer {
  if (form_model === undefined) throw new Error('A form without a model has been taken.');
  const { start, end } = form_model;
  return Buffer.concat([bytes.subarray(0, start), Buffer.from(model), bytes.subarray(end)]);
}

function partOf({ name, text, file_name, type, place }: Part, bytes: Buffer): FormPart {
  const head = text === undefined ? [name, file_name, type] : [name];
  return { head: JSON.stringify(head), bytes: bytes.subarray(place.start, place.end) };
}

function fileOf({ place, file_name, type }: Part, bytes: Buffer): FormFile {
  return { bytes: bytes.subarray(place.start, place.end), name: file_name, type };
}

function add(fields: Body, name: string, value: string): void {
  checkName(name);
  if (name.endsWith('[]')) {
    const list = (fields[name] ?? []) as string[];
    fields[name] = [...list, value];
  } else if (Object.hasOwn(fields, name)) {
    throw new AppError('invalid_request', `The form names "${name}" twice.`, { param: name });
  } else {
    Object.defineProperty(fields, name, { value, enumerable: true });
  }
}
