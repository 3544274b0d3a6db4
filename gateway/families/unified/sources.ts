import { isUtf8 } from 'node:buffer';
import type { Body } from '../../wire/values';
import { wrong } from '../input';

const most_take = new Set(['image/jpeg', 'image/png', 'image/gif', 'image/webp']);
const data_head = 'data:';
const NUL = 0;

/** The picture at a URL, or in one, as that wire's block, if its type is one of those. */
export function pictureOf(
  url: string,
  param: string,
  types: ReadonlySet<string> = most_take,
): Body {
  const data = dataOf(url, param);
  if (data === undefined)
    return { type: 'image', source: { type: 'url', url: webUrl(url, param) } };
  const media_type = data.type === 'image/jpg' ? 'image/jpeg' : data.type;
  if (!types.has(media_type)) {
    const kinds = [...types].join(', ');
    throw wrong(param, `The provider of this model takes pictures of the types ${kinds}.`);
  }
  return { type: 'image', source: base64(media_type, data.bytes) };
}

/** A file as that wire's block: a data URL, bare Base64, or the address of a document. */
export function documentOf(file: string, param: string): Body {
  const data = dataOf(file, param);
  if (data !== undefined) return { type: 'document', source: sourceOf(data, param) };
  const bytes = bytesIn(file);
  if (bytes !== undefined) {
    return { type: 'document', source: sourceOf({ ...unnamed, bytes }, param) };
  }
  return { type: 'document', source: { type: 'url', url: webUrl(file, param) } };
}

interface Data {
  type: string;
  charset: string;
  bytes: Buffer;
}

// What says nothing of its type is known by its first bytes.
const unnamed = { type: 'application/octet-stream', charset: 'utf-8' };

/** What a data URL holds (RFC 2397); undefined if it is none. */
function dataOf(url: string, param: string): Data | undefined {
  if (url.slice(0, data_head.length).toLowerCase() !== data_head) return undefined;
  const comma = url.indexOf(',');
  if (comma < 0) throw wrong(param, 'A data URL has a comma before its data.');
  const about = url.slice(data_head.length, comma).split(';');
  const [type, ...parameters] = about.map((one) => one.trim().toLowerCase());
  const is_base64 = parameters.at(-1) === 'base64';
  const written = url.slice(comma + 1);
  const bytes = is_base64 ? bytesIn(unescaped(written).toString('latin1')) : unescaped(written);
  if (bytes === undefined) throw wrong(param, 'The data of this URL is not Base64.');
  const charset = parameters.find((one) => one.startsWith('charset='))?.slice('charset='.length);
  return {
    type: type || 'text/plain',
    charset: charset?.replaceAll('"', '') || 'utf-8',
    bytes,
  };
}

function unescaped(text: string): Buffer {
  const bytes = Buffer.from(text);
  if (!text.includes('%')) return bytes;
  const plain = bytes
    .toString('latin1')
    .replaceAll(/%([\da-f]{2})/gi, (_, digits: string) =>
      String.fromCharCode(Number.parseInt(digits, 16)),
    );
  return Buffer.from(plain, 'latin1');
}

/** The bytes that Base64 says; undefined if the text is none. */
function bytesIn(text: string): Buffer | undefined {
  const plain = text.replaceAll(/\s/g, '');
  const padding = plain.endsWith('==') ? 2 : plain.endsWith('=') ? 1 : 0;
  const digits = plain.length - padding;
  const bytes = Buffer.from(plain, 'base64');
  // The decoder passes over what is no digit, so the bytes would be fewer.
  const is_whole = digits % 4 !== 1 && bytes.length === Math.floor((digits * 3) / 4);
  return is_whole && bytes.length > 0 ? bytes : undefined;
}

function sourceOf({ type, charset, bytes }: Data, param: string): Body {
  const is_unnamed = type === unnamed.type;
  const is_pdf = bytes.subarray(0, 5).toString('latin1') === '%PDF-';
  if (type === 'application/pdf' || (is_unnamed && is_pdf)) return base64('application/pdf', bytes);
  const is_text = type.startsWith('text/') || (is_unnamed && isText(bytes));
  if (!is_text) throw wrong(param, 'The provider of this model takes PDF and text as files.');
  return { type: 'text', media_type: 'text/plain', data: textOf(bytes, charset, param) };
}

function isText(bytes: Buffer): boolean {
  return isUtf8(bytes) && !bytes.includes(NUL);
}

function textOf(bytes: Buffer, charset: string, param: string): string {
  try {
    return new TextDecoder(charset, { fatal: true }).decode(bytes);
  } catch {
    throw wrong(param, 'This text is not in the character set that it names, or UTF-8.');
  }
}

function base64(media_type: string, bytes: Buffer): Body {
  return { type: 'base64', media_type, data: bytes.toString('base64') };
}

function webUrl(url: string, param: string): string {
  if (/^https?:/i.test(url) && URL.canParse(url)) return url;
  throw wrong(param, 'This is neither a web address nor a data URL.');
}
